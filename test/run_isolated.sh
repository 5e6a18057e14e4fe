#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# usage: run_isolated.sh COMMAND...   in network, process and mount namespaces of its own where this user may make them
set -euo pipefail
zip_top=$(cd "$(dirname "$0")/.." && pwd)
# shellcheck source=test/sh/common.sh
. "$zip_top/test/sh/common.sh"
isolated "$@"
