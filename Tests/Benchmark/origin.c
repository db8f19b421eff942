/*
 * The origin of the benchmark: as cheap as can be, so that the proxies are what is measured. HTTP/1.1 as the proxies
 * speak it and no more: a head in one or more reads, Content-Length bodies, keep-alive.
 *
 *   GET /bulk       Content-Length: 1073741824, zeros        other GET   twelve bytes
 *   GET /another/N  twelve bytes, N in a field               pipelining  in order
 *   PUT             reads the content, then answers
 *
 * origin   prints its port, which the kernel chooses, and serves 127.0.0.1 until it is killed.
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
#include <strings.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

enum { head_bytes = 16384, piece_bytes = 262144, events_max = 512 };
static const long long bulk_bytes = 1LL << 30;
static const char small[] = "HTTP/1.1 200 OK\r\nContent-Length: 12\r\nDate: Thu, 01 Jan 1970 00:00:00 GMT\r\n\r\nhello, world";

struct connection {
  int descriptor;
  size_t have;
  /* Of a request's content, and of a response's, still to come. */
  long long reading, sending;
  /* The client has said that this request is its last. */
  int is_last;
  char head[head_bytes + 1];
};

static char zeros[piece_bytes], waste[piece_bytes];
static int set;

static void end(struct connection *connection) {
  close(connection->descriptor);
  free(connection);
}

/* A response this short always fits the socket's buffer of a client that reads what it asked for. */
static int answer(struct connection *connection, const char *text, size_t bytes) {
  return send(connection->descriptor, text, bytes, MSG_NOSIGNAL) == (ssize_t)bytes ? 0 : -1;
}

static int take_head(struct connection *connection, size_t bytes) {
  char *head = connection->head;
  head[bytes - 1] = 0;
  int is_put = strncmp(head, "PUT ", 4) == 0;
  char *length = strcasestr(head, "\ncontent-length:");
  connection->reading = length ? atoll(length + 16) : 0;
  connection->is_last = strcasestr(head, "\nconnection: close") != NULL;
  if (strncmp(head, "GET /bulk", 9) == 0) {
    char text[160];
    int count = snprintf(text, sizeof text, "HTTP/1.1 200 OK\r\nContent-Length: %lld\r\nDate: x\r\n\r\n", bulk_bytes);
    connection->sending = bulk_bytes;
    return answer(connection, text, count);
  }
  if (strncmp(head, "GET /another/", 13) == 0) {
    char text[200];
    int count = snprintf(
        text, sizeof text, "HTTP/1.1 200 OK\r\nContent-Length: 12\r\nDate: x\r\nETag: \"%lld\"\r\n\r\nhello, world",
        atoll(head + 13));
    return answer(connection, text, count);
  }
  if (is_put && connection->reading > 0) return 0;
  return answer(connection, small, sizeof small - 1);
}

/* -1: the connection has ended. */
static int serve(struct connection *connection) {
  for (;;) {
    while (connection->sending > 0) {
      size_t piece = connection->sending < piece_bytes ? connection->sending : piece_bytes;
      ssize_t sent = send(connection->descriptor, zeros, piece, MSG_NOSIGNAL);
      if (sent < 0) return errno == EAGAIN ? 0 : -1;
      connection->sending -= sent;
    }
    if (connection->reading > 0) {
      long long held = (long long)connection->have;
      long long taken = held < connection->reading ? held : connection->reading;
      connection->reading -= taken;
      memmove(connection->head, connection->head + taken, held - taken);
      connection->have -= taken;
      if (connection->reading > 0) {
        size_t wanted = connection->reading < piece_bytes ? connection->reading : piece_bytes;
        ssize_t count = recv(connection->descriptor, waste, wanted, 0);
        if (count < 0) return errno == EAGAIN ? 0 : -1;
        if (count == 0) return -1;
        connection->reading -= count;
      }
      if (connection->reading > 0) continue;
      if (answer(connection, small, sizeof small - 1) < 0) return -1;
    }
    char *finish = memmem(connection->head, connection->have, "\r\n\r\n", 4);
    if (finish) {
      size_t bytes = finish + 4 - connection->head;
      if (take_head(connection, bytes) < 0) return -1;
      memmove(connection->head, connection->head + bytes, connection->have - bytes);
      connection->have -= bytes;
      if (connection->is_last && connection->sending == 0 && connection->reading == 0) return -1;
      continue;
    }
    if (connection->have == head_bytes) return -1;
    size_t room = head_bytes - connection->have;
    ssize_t count = recv(connection->descriptor, connection->head + connection->have, room, 0);
    if (count < 0) return errno == EAGAIN ? 0 : -1;
    if (count == 0) return -1;
    connection->have += count;
  }
}

int main(void) {
  signal(SIGPIPE, SIG_IGN);
  struct sockaddr_in own = {.sin_family = AF_INET};
  own.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t length = sizeof own;
  int listener = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  if (bind(listener, (struct sockaddr *)&own, length) < 0 || listen(listener, 4096) < 0) return perror("listen"), 1;
  getsockname(listener, (struct sockaddr *)&own, &length);
  printf("%d\n", ntohs(own.sin_port));
  fflush(stdout);
  set = epoll_create1(EPOLL_CLOEXEC);
  struct epoll_event event = {.events = EPOLLIN, .data.ptr = NULL}, events[events_max];
  epoll_ctl(set, EPOLL_CTL_ADD, listener, &event);
  for (;;) {
    int count = epoll_wait(set, events, events_max, -1);
    for (int index = 0; index < count; index++) {
      struct connection *connection = events[index].data.ptr;
      if (connection) {
        if (serve(connection) < 0) end(connection);
        continue;
      }
      int accepted;
      while ((accepted = accept4(listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC)) >= 0) {
        int on = 1;
        setsockopt(accepted, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
        connection = calloc(1, sizeof *connection);
        if (!connection) return 1;
        connection->descriptor = accepted;
        event.events = EPOLLIN | EPOLLOUT | EPOLLET;
        event.data.ptr = connection;
        epoll_ctl(set, EPOLL_CTL_ADD, accepted, &event);
      }
    }
  }
}
