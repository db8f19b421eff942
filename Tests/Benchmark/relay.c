/*
 * The limit: the least that a proxy in user space can do. Bytes of each client go to an upstream connection of its own
 * and back, one read and one write each; nothing is parsed, nothing added. What a proxy costs beyond this is what it
 * does with HTTP.
 *
 * relay UPSTREAM_PORT         prints its own port, which the kernel chooses, and serves 127.0.0.1 until it is killed.
 * relay UPSTREAM_PORT floor   waits in recv, not in epoll_wait: one connection at a time, requests and answers that come
 *                             in one piece. Four calls for each, and no proxy between two sockets does with fewer.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

enum { buffer_bytes = 65536, events_max = 512 };

/* One direction's source. What its peer did not take waits in `pending`. */
struct end {
  int descriptor;
  struct end *peer;
  char *pending;
  size_t pending_start, pending_bytes;
  int has_ended;
};

static char buffer[buffer_bytes];
static int set;

static void fail(const char *what) {
  perror(what);
  exit(1);
}

static struct sockaddr_in loopback(unsigned short port) {
  struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(port)};
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  return address;
}

static struct end *add(int descriptor) {
  struct end *end = calloc(1, sizeof *end);
  if (!end) fail("calloc");
  int on = 1;
  setsockopt(descriptor, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  end->descriptor = descriptor;
  struct epoll_event event = {.events = EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET, .data.ptr = end};
  if (epoll_ctl(set, EPOLL_CTL_ADD, descriptor, &event) < 0) fail("epoll_ctl");
  return end;
}

static void dismiss(struct end *end) {
  struct end *peer = end->peer;
  close(end->descriptor);
  close(peer->descriptor);
  free(end->pending);
  free(peer->pending);
  /* Events of this turn may still name them: freed when the turn is over. */
  end->descriptor = peer->descriptor = -1;
}

/* 0: all of it is gone. 1: some waits. -1: the connection is of no use. */
static int flush(struct end *to) {
  while (to->pending_bytes > 0) {
    ssize_t count = send(to->descriptor, to->pending + to->pending_start, to->pending_bytes, MSG_NOSIGNAL);
    if (count < 0) return errno == EAGAIN ? 1 : -1;
    to->pending_start += count;
    to->pending_bytes -= count;
  }
  return 0;
}

static int move(struct end *from) {
  struct end *to = from->peer;
  for (;;) {
    switch (flush(to)) {
    case 1: return 0;
    case -1: return -1;
    }
    if (from->has_ended) return 0;
    ssize_t count = recv(from->descriptor, buffer, buffer_bytes, 0);
    if (count < 0) return errno == EAGAIN ? 0 : -1;
    if (count == 0) {
      from->has_ended = 1;
      shutdown(to->descriptor, SHUT_WR);
      return to->has_ended ? -1 : 0;
    }
    ssize_t sent = send(to->descriptor, buffer, count, MSG_NOSIGNAL);
    if (sent < 0 && errno != EAGAIN) return -1;
    if (sent < count) {
      size_t rest = count - (sent < 0 ? 0 : sent);
      if (!to->pending) to->pending = malloc(buffer_bytes);
      if (!to->pending) fail("malloc");
      memcpy(to->pending, buffer + count - rest, rest);
      to->pending_start = 0;
      to->pending_bytes = rest;
      return 0;
    }
    /* A short read has emptied the socket: the next edge tells of more. */
    if (count < buffer_bytes) return 0;
  }
}

static ssize_t pass(int from, int to) {
  ssize_t count = recv(from, buffer, buffer_bytes, 0);
  return count > 0 ? send(to, buffer, count, MSG_NOSIGNAL) : count;
}

static void serve_blocking(int listener, struct sockaddr_in upstream) {
  for (;;) {
    int on = 1, client = accept(listener, NULL, NULL), other = socket(AF_INET, SOCK_STREAM, 0);
    if (client < 0 || other < 0 || connect(other, (struct sockaddr *)&upstream, sizeof upstream) < 0) fail("connect");
    setsockopt(client, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    setsockopt(other, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    while (pass(client, other) > 0 && pass(other, client) > 0) {}
    close(client);
    close(other);
  }
}

int main(int argc, char **argv) {
  int is_floor = argc == 3 && strcmp(argv[2], "floor") == 0;
  if (argc != 2 && !is_floor) return fprintf(stderr, "relay UPSTREAM_PORT [floor]\n"), 2;
  signal(SIGPIPE, SIG_IGN);
  struct sockaddr_in upstream = loopback(atoi(argv[1])), own = loopback(0);
  socklen_t length = sizeof own;
  int listener = socket(AF_INET, SOCK_STREAM | (is_floor ? 0 : SOCK_NONBLOCK) | SOCK_CLOEXEC, 0);
  if (bind(listener, (struct sockaddr *)&own, length) < 0 || listen(listener, 4096) < 0) fail("listen");
  getsockname(listener, (struct sockaddr *)&own, &length);
  printf("%d\n", ntohs(own.sin_port));
  fflush(stdout);
  if (is_floor) serve_blocking(listener, upstream);
  set = epoll_create1(EPOLL_CLOEXEC);
  struct epoll_event event = {.events = EPOLLIN, .data.ptr = NULL}, events[events_max];
  epoll_ctl(set, EPOLL_CTL_ADD, listener, &event);
  for (;;) {
    int count = epoll_wait(set, events, events_max, -1);
    struct end *gone[events_max];
    int gone_count = 0;
    for (int index = 0; index < count; index++) {
      struct end *end = events[index].data.ptr;
      if (!end) {
        int client;
        while ((client = accept4(listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC)) >= 0) {
          int other = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
          if (other < 0 || (connect(other, (struct sockaddr *)&upstream, sizeof upstream) < 0 && errno != EINPROGRESS)) {
            close(client);
            close(other);
            continue;
          }
          struct end *a = add(client), *b = add(other);
          a->peer = b;
          b->peer = a;
        }
        continue;
      }
      if (end->descriptor < 0) continue;
      /* What waits for this end, until its connection stands too, keeps its peer from being read. */
      if (move(end) < 0 || (end->pending_bytes > 0 && move(end->peer) < 0)) {
        dismiss(end);
        gone[gone_count++] = end;
      }
    }
    for (int index = 0; index < gone_count; index++) {
      free(gone[index]->peer);
      free(gone[index]);
    }
  }
}
