/* SPDX-License-Identifier: BSD-3-Clause */
/* What an application sleeps on: the fds of core objects and an event of our own, behind one epoll fd. */
#include <errno.h>
#include <poll.h>
#include <sched.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#include "zipfi.h"

int zipfi_wait_open(struct zipfi_wait *wait, enum fi_wait_obj obj)
{
	struct epoll_event event = {.events = EPOLLIN};
	int ret;

	wait->obj = obj;
	wait->epfd = wait->evfd = -1;
	atomic_store(&wait->signaled, false);
	if (obj == FI_WAIT_NONE || obj == FI_WAIT_YIELD)
		return 0;
	wait->epfd = epoll_create1(EPOLL_CLOEXEC);
	if (wait->epfd < 0)
		return -errno;
	wait->evfd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (wait->evfd < 0 || epoll_ctl(wait->epfd, EPOLL_CTL_ADD, wait->evfd, &event)) {
		ret = -errno;
		zipfi_wait_close(wait);
		return ret;
	}
	return 0;
}

void zipfi_wait_close(struct zipfi_wait *wait)
{
	if (wait->evfd >= 0)
		close(wait->evfd);
	if (wait->epfd >= 0)
		close(wait->epfd);
	wait->epfd = wait->evfd = -1;
}

int zipfi_wait_add(struct zipfi_wait *wait, struct fid *core)
{
	struct epoll_event event = {.events = EPOLLIN};
	int fd = -1;

	if (wait->epfd < 0)
		return 0;
	if (fi_control(core, FI_GETWAIT, &fd) || fd < 0)
		return -FI_ENOSYS;
	if (epoll_ctl(wait->epfd, EPOLL_CTL_ADD, fd, &event) && errno != EEXIST)
		return -errno;
	return 0;
}

void zipfi_wait_add_fd(struct zipfi_wait *wait, int fd)
{
	struct epoll_event event = {.events = EPOLLIN};

	/* A closed fd leaves the set by itself. */
	if (wait->epfd >= 0 && fd >= 0 && epoll_ctl(wait->epfd, EPOLL_CTL_ADD, fd, &event))
		ZIPFI_INFO(CQ, "an announcement will not wake sleepers\n");
}

void zipfi_wait_remove(struct zipfi_wait *wait, struct fid *core)
{
	int fd = -1;

	if (wait->epfd >= 0 && !fi_control(core, FI_GETWAIT, &fd) && fd >= 0)
		epoll_ctl(wait->epfd, EPOLL_CTL_DEL, fd, NULL);
}

void zipfi_wait_signal(struct zipfi_wait *wait)
{
	uint64_t one = 1;

	if (wait->evfd < 0 || atomic_load(&wait->signaled))
		return;
	/*
	 * The event first: else it could come after a clear that has seen the flag already, and stay behind without it. Writing
	 * can only fail when the counter is full, and then it is readable.
	 */
	if (write(wait->evfd, &one, sizeof(one)) < 0 && errno != EAGAIN)
		return;
	atomic_store(&wait->signaled, true);
}

void zipfi_wait_clear(struct zipfi_wait *wait)
{
	uint64_t value;

	if (wait->evfd < 0 || !atomic_exchange(&wait->signaled, false))
		return;
	if (read(wait->evfd, &value, sizeof(value)) < 0)
		return; /* nothing was there */
}

void zipfi_wait_sleep(struct zipfi_wait *wait, int timeout_ms)
{
	const struct timespec nap = {.tv_nsec = 20000};
	struct epoll_event event;

	if (wait->epfd >= 0)
		epoll_wait(wait->epfd, &event, 1, timeout_ms);
	else if (wait->obj == FI_WAIT_YIELD)
		sched_yield();
	else
		nanosleep(&nap, NULL);
}

int zipfi_wait_get(const struct zipfi_wait *wait, int command, void *arg)
{
	struct fi_wait_pollfd *list = arg;

	if (command == FI_GETWAITOBJ) {
		*(enum fi_wait_obj *)arg = wait->obj;
		return 0;
	}
	if (command != FI_GETWAIT || wait->epfd < 0)
		return -FI_ENOSYS;
	if (wait->obj != FI_WAIT_POLLFD) {
		*(int *)arg = wait->epfd;
		return 0;
	}
	list->change_index = 1;
	if (list->nfds < 1) {
		list->nfds = 1;
		return -FI_ETOOSMALL;
	}
	list->fd[0] = (struct pollfd){.fd = wait->epfd, .events = POLLIN};
	list->nfds = 1;
	return 0;
}
