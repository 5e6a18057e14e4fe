# SPDX-License-Identifier: BSD-3-Clause
# shellcheck shell=bash
# Steps of `check`: each has a time limit and a log, several run at once, results are counted. Needs common.sh.
#
# What a step's log says is counted: cmocka's summary lines, and lines "PASS: name", "FAIL: name", "SKIP: name: why". A log
# without any counts as one test: passed with exit status 0, skipped with 77 (the last line says why), else failed.

steps_dir=			# logs and counts of this run
steps_only=.			# extended regular expression of the names that are wanted
steps_width=$zip_jobs		# steps at once

steps_init() {
	steps_dir=$zip_work/results
	rm -rf "$steps_dir"
	mkdir -p "$steps_dir"
}

# End what runs, and what that started: a step's programs are in process groups of their own.
steps_stop() {
	local pid
	for pid in $(jobs -p); do
		kill_tree "$pid"
	done
}

kill_tree() {
	local child
	for child in $(ps -o pid= --ppid "$1"); do
		kill_tree "$child"
	done
	kill "$1" 2> /dev/null || true
}

# steps_wanted NAME
steps_wanted() { [[ $1 =~ $steps_only ]]; }

# step NAME SECONDS COMMAND...: run it now and wait
step() {
	steps_wanted "$1" || return 0
	progress "$1"
	step_body "$@"
}

# step_later NAME SECONDS COMMAND...: run it as soon as less than $steps_width others run
step_later() {
	steps_wanted "$1" || return 0
	while [ "$(jobs -rp | wc -l)" -ge "$steps_width" ]; do
		wait -n || true
	done
	step_body "$@" &
}

steps_wait() { wait; }

# step_skip NAME WHY
step_skip() {
	steps_wanted "$1" || return 0
	printf 'SKIP: %s: %s\n' "$1" "$2" > "$steps_dir/$(step_file "$1").log"
	echo "0 0 1" > "$steps_dir/$(step_file "$1").count"
	step_say "skipped  $1: $2"
}

step_file() { printf '%s' "$1" | tr -c 'A-Za-z0-9._-' '_'; }

step_say() {
	progress_end
	printf '%s\n' "$1"
}

# Never fails: the result is in the count file.
step_body() {
	local name=$1 limit=$2 file start=$SECONDS rc=0 log pass fail skip
	shift 2
	file=$steps_dir/$(step_file "$name")
	log=$file.log
	run_logged "$log" "$limit" "$@" || rc=$?
	read -r pass fail skip <<< "$(step_count "$log" $rc)"
	echo "$pass $fail $skip" > "$file.count"
	if [ "$fail" -gt 0 ]; then
		step_say "FAILED   $name ($pass passed, $fail failed, $skip skipped, $((SECONDS - start)) s)
$(grep '^FAIL: ' "$log" | head -n 40 | sed 's/^/    /')
    end of $log:
$(tail -n 40 "$log" | sed 's/^/    | /')"
	elif [ "$pass" -eq 0 ] && [ "$skip" -gt 0 ]; then
		step_say "skipped  $name: $(tail -n 1 "$log")"
	else
		step_say "ok       $name ($pass passed, $skip skipped, $((SECONDS - start)) s)$(sed -n 's/^SKIP: /\n         skipped  /p' "$log")"
	fi
	return 0
}

# step_count LOG STATUS: prints "passed failed skipped"
step_count() {
	awk -v rc="$2" '
		/^\[  PASSED  \] [0-9]+ test\(s\)/ { pass += $4 }
		/^\[  FAILED  \] [0-9]+ test\(s\)/ { fail += $4 }
		/^\[  SKIPPED \] [0-9]+ test\(s\)/ { skip += $4 }
		/^PASS: / { pass++ }
		/^FAIL: / { fail++ }
		/^SKIP: / { skip++ }
		END {
			if (rc == 77 && !pass && !fail && !skip) skip = 1
			else if (rc != 0 && rc != 77 && !fail) fail = 1
			else if (!pass && !fail && !skip) pass = 1
			print pass + 0, fail + 0, skip + 0
		}' "$1"
}

# The closing line, and the exit status.
steps_end() {
	awk '{ pass += $1; fail += $2; skip += $3 }
		END { printf "%d passed, %d failed, %d skipped\n", pass, fail, skip; exit fail > 0 || pass == 0 }' \
		"$steps_dir"/*.count /dev/null
}
