/* What STREAM (McCalpin) measures, for bench/memory: copy or triad over arrays of doubles, with plain or with streaming stores.
 *
 *   stream copy|triad plain|streaming ARRAY_BYTES SECONDS
 *
 * Prints bytes per second as STREAM counts them (16 a word for copy, 24 for triad): the median over whole passes. Compiled with
 * -O3 -march=native -fno-tree-loop-distribute-patterns: gcc would make the copy a call of memcpy, which chooses streaming stores by
 * itself. With -fopenmp on OMP_NUM_THREADS threads, else on one. */
#define _GNU_SOURCE
#include <immintrin.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

static double *a, *b, *c;
static long words;

static double now(void) {
  struct timespec at;
  clock_gettime(CLOCK_MONOTONIC, &at);
  return at.tv_sec + at.tv_nsec * 1e-9;
}

#if defined(__AVX512F__)
#define WIDE 8
#define LOAD _mm512_load_pd
#define STREAM _mm512_stream_pd
#define SET _mm512_set1_pd
#define ADD _mm512_add_pd
#define MUL _mm512_mul_pd
#elif defined(__AVX__)
#define WIDE 4
#define LOAD _mm256_load_pd
#define STREAM _mm256_stream_pd
#define SET _mm256_set1_pd
#define ADD _mm256_add_pd
#define MUL _mm256_mul_pd
#else
#define WIDE 2
#define LOAD _mm_load_pd
#define STREAM _mm_stream_pd
#define SET _mm_set1_pd
#define ADD _mm_add_pd
#define MUL _mm_mul_pd
#endif

static void copy_plain(void) {
#pragma omp parallel for schedule(static)
  for (long i = 0; i < words; i++) c[i] = a[i];
}

static void triad_plain(double factor) {
#pragma omp parallel for schedule(static)
  for (long i = 0; i < words; i++) a[i] = b[i] + factor * c[i];
}

static void copy_streaming(void) {
#pragma omp parallel for schedule(static)
  for (long i = 0; i < words; i += WIDE) STREAM(c + i, LOAD(a + i));
  _mm_sfence();
}

static void triad_streaming(double factor) {
#pragma omp parallel for schedule(static)
  for (long i = 0; i < words; i += WIDE) STREAM(a + i, ADD(LOAD(b + i), MUL(SET(factor), LOAD(c + i))));
  _mm_sfence();
}

static double *array(size_t bytes) {
  double *made = aligned_alloc(2 << 20, (bytes + (2 << 20) - 1) >> 21 << 21);
  if (!made) {
    fprintf(stderr, "stream: %zu bytes cannot be had\n", bytes);
    exit(3);
  }
  madvise(made, bytes, MADV_HUGEPAGE); /* as linerate does: the pages are not what is compared */
  return made;
}

static int smaller(const void *one, const void *other) {
  double x = *(const double *)one, y = *(const double *)other;
  return (x > y) - (x < y);
}

int main(int count, char **word) {
  if (count != 5) return 2;
  int triad = !strcmp(word[1], "triad"), streaming = !strcmp(word[2], "streaming");
  size_t bytes = strtoull(word[3], 0, 10) / 64 * 64;
  double seconds = atof(word[4]);
  words = bytes / sizeof(double);
  a = array(bytes), b = array(bytes), c = array(bytes);
#pragma omp parallel for schedule(static)
  for (long i = 0; i < words; i++) a[i] = 1.0, b[i] = 2.0, c[i] = 0.0;
  enum { MOST = 10000 };
  static double rates[MOST];
  int passes = 0;
  /* The first pass is not counted. */
  for (double begin = now(); passes < MOST && (passes < 4 || now() - begin < seconds); passes++) {
    double start = now();
    if (triad && streaming) triad_streaming(3.0);
    else if (triad) triad_plain(3.0);
    else if (streaming) copy_streaming();
    else copy_plain();
    rates[passes] = (triad ? 3.0 : 2.0) * bytes / (now() - start);
  }
  qsort(rates + 1, passes - 1, sizeof(double), smaller);
  printf("%.0f %.6f %.6f\n", rates[1 + (passes - 1) / 2], a[words / 2], c[words / 2]);
  return 0;
}
