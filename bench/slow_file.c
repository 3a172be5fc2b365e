// A file whose reads take as long as they are told to: a FUSE file over another one, mounted on that one's own name.
//
//   slow_file FILE delay MILLISECONDS            each read takes so long, however many are under way
//   slow_file FILE burst FAST SUSTAINED SECONDS  MB/s: fast for so many seconds, then slow until it was left alone
//
// It stays until the file is unmounted. Spoken straight to /dev/fuse, so that no library is needed.
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/fuse.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

enum { THREADS = 64, LARGEST = 1 << 20, ROOM = LARGEST + 8192 };

static int fuse, below;
static mode_t mode;
static double delay_seconds, fast, sustained, bucket;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static double now(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return time.tv_sec + time.tv_nsec * 1e-9;
}

// When a read of so many bytes that came now may be answered: a bucket that is emptied at the fast rate and
// filled at the sustained one.
static double due(double bytes) {
  static double free_at, level = -1, level_at;
  double came = now();
  if (bucket == 0) return came + delay_seconds;
  pthread_mutex_lock(&lock);
  double start = free_at > came ? free_at : came;
  if (level < 0) level = bucket, level_at = start;
  level += (start - level_at) * sustained;
  if (level > bucket) level = bucket;
  double end = start + bytes / fast;
  level += (end - start) * sustained - bytes;
  if (level < 0) end += -level / sustained, level = 0;
  level_at = free_at = end;
  pthread_mutex_unlock(&lock);
  return end;
}

static void sleep_until(double when) {
  struct timespec time = {.tv_sec = (time_t)when, .tv_nsec = (long)((when - (time_t)when) * 1e9)};
  while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &time, NULL) == EINTR) {}
}

static void answer(uint64_t unique, int error, const void *data, size_t length) {
  struct fuse_out_header head = {.len = sizeof head + length, .error = -error, .unique = unique};
  struct iovec parts[] = {{&head, sizeof head}, {(void *)data, length}};
  if (writev(fuse, parts, 2) < 0 && errno != ENOENT) perror("slow_file: answer");
}

static void begin(const struct fuse_in_header *in, const struct fuse_init_in *asked) {
  struct fuse_init_out out = {
      .major = FUSE_KERNEL_VERSION, .minor = FUSE_KERNEL_MINOR_VERSION, .max_readahead = asked->max_readahead,
      .max_write = LARGEST, .max_background = 1024, .congestion_threshold = 768, .max_pages = LARGEST / 4096,
      .flags = asked->flags & (FUSE_ASYNC_READ | FUSE_ASYNC_DIO | FUSE_BIG_WRITES | FUSE_MAX_PAGES)};
  answer(in->unique, 0, &out, sizeof out);
}

static void attributes(const struct fuse_in_header *in) {
  struct stat found;
  if (fstat(below, &found)) { answer(in->unique, errno, NULL, 0); return; }
  struct fuse_attr_out out = {.attr_valid = 3600, .attr = {
      .ino = 1, .size = found.st_size, .blocks = found.st_blocks, .mode = mode, .nlink = 1, .blksize = 4096}};
  answer(in->unique, 0, &out, sizeof out);
}

static void read_below(const struct fuse_in_header *in, const struct fuse_read_in *asked, char *buffer) {
  double when = due(asked->size);
  ssize_t got = pread(below, buffer, asked->size < LARGEST ? asked->size : LARGEST, asked->offset);
  int error = errno;
  sleep_until(when);
  answer(in->unique, got < 0 ? error : 0, buffer, got < 0 ? 0 : got);
}

static void write_below(const struct fuse_in_header *in, const struct fuse_write_in *asked) {
  ssize_t put = pwrite(below, asked + 1, asked->size, asked->offset);
  struct fuse_write_out out = {.size = put < 0 ? 0 : put};
  answer(in->unique, put < 0 ? errno : 0, &out, put < 0 ? 0 : sizeof out);
}

static void *serve(void *unused) {
  (void)unused;
  char *message = malloc(ROOM), *buffer = aligned_alloc(4096, LARGEST);
  if (!message || !buffer) exit(1);
  for (;;) {
    ssize_t length = read(fuse, message, ROOM);
    if (length < 0 && (errno == EINTR || errno == ENOENT || errno == EAGAIN)) continue;
    if (length < (ssize_t)sizeof(struct fuse_in_header)) exit(length < 0 && errno != ENODEV);
    const struct fuse_in_header *in = (void *)message;
    const void *rest = in + 1;
    struct fuse_open_out opened = {0};
    switch (in->opcode) {
      case FUSE_INIT: begin(in, rest); break;
      case FUSE_GETATTR: case FUSE_SETATTR: attributes(in); break;
      case FUSE_OPEN: answer(in->unique, 0, &opened, sizeof opened); break;
      case FUSE_READ: read_below(in, rest, buffer); break;
      case FUSE_WRITE: write_below(in, rest); break;
      case FUSE_FSYNC: answer(in->unique, fdatasync(below) ? errno : 0, NULL, 0); break;
      case FUSE_FLUSH: case FUSE_RELEASE: case FUSE_ACCESS: answer(in->unique, 0, NULL, 0); break;
      case FUSE_FORGET: case FUSE_BATCH_FORGET: case FUSE_INTERRUPT: break;
      default: answer(in->unique, ENOSYS, NULL, 0);
    }
  }
}

int main(int count, char **words) {
  if (count == 4 && !strcmp(words[2], "delay")) delay_seconds = atof(words[3]) / 1e3;
  else if (count == 6 && !strcmp(words[2], "burst")) {
    fast = atof(words[3]) * 1e6, sustained = atof(words[4]) * 1e6;
    bucket = (fast - sustained) * atof(words[5]);
  } else {
    fprintf(stderr, "slow_file FILE delay MILLISECONDS | burst FAST SUSTAINED SECONDS\n");
    return 2;
  }
  struct stat found;
  below = open(words[1], O_RDWR);
  fuse = open("/dev/fuse", O_RDWR | O_CLOEXEC);
  if (below < 0 || fuse < 0 || fstat(below, &found)) { perror("slow_file"); return 3; }
  mode = S_IFREG | (found.st_mode & 07777);
  char how[128];
  snprintf(how, sizeof how, "fd=%d,rootmode=%o,user_id=0,group_id=0,allow_other,max_read=%d", fuse, mode, LARGEST);
  if (mount("slow_file", words[1], "fuse.slow_file", MS_NOSUID | MS_NODEV, how)) { perror("slow_file: mount"); return 3; }
  pthread_t thread;
  for (int i = 1; i < THREADS; i++) pthread_create(&thread, NULL, serve, NULL);
  serve(NULL);
}
