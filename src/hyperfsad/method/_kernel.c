/* Sparsemax matching of some query patches, without sorting and without dense weights.

   The memory is offered in tiles, small enough to stay in the processor's cache. For each query q
   and an upper bound u_j >= <q, p_j> of every row p_j of a tile:

   1. some rows with the largest bounds are compared exactly; the threshold of any subset of
      candidates is a lower bound of the true threshold tau, since
      tau = max over subsets T of (sum of z over T - 1) / |T|;
   2. whatever has a bound above that (plus room for rounding) is compared as well, while the
      threshold rises; by Proposition 1 nothing else can get any weight. What is left is kept for
      the next tile, which begins with the threshold of all tiles before;
   3. after the last tile w = z - tau over the rows left, e = sum w p, and the distance is
      1 - <q, e> / (|q| |e|). (<q, e> would be sum w z, but what rounding does to e over thousands of
      rows cancels only this way.)

   A plain shared library, called by pointer from `kernel.py`, which checks all shapes and says which
   instruction set is used. What is compiled for each set is the same code.
*/

#include <math.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#if defined(_WIN32)
#define EXPORT __declspec(dllexport)
#else
#define EXPORT __attribute__((visibility("default")))
#endif

#if defined(__GNUC__)
#define INLINE static inline __attribute__((always_inline))
#else
#define INLINE static inline
#endif

/* gcc for Windows does not align the stack for these instructions, clang does */
#if defined(__x86_64__) && defined(__GNUC__) && (defined(__clang__) || !defined(_WIN32))
#define CHOICE
#endif

#if defined(__GNUC__)
#define PREFETCH(address) __builtin_prefetch(address)
#else
#define PREFETCH(address) (void)(address)
#endif

#define LANES 32 /* rows of a block, and floats that are added side by side */
#define FIRST 16 /* blocks whose best rows are compared first */
#define STEP 0.01f /* how far below them the second round reaches; each later one twice as far */

typedef struct {
    float *value;
    ptrdiff_t *row;
    ptrdiff_t count, room;
} Candidates;

typedef struct {
    const float *queries, *memory;
    ptrdiff_t count, width;
    int set; /* of instructions */
    Candidates *kept; /* of each query */
    double *tau;
} Search;

typedef struct {
    const float *memory, *bounds; /* of the rows of the tile */
    ptrdiff_t from, size, width;
    int exact;   /* the bounds are the similarities themselves */
    float slack; /* rounding */
    float *best; /* the largest bound of each block of rows */
} Tile;

INLINE float dot(const float *a, const float *b, ptrdiff_t n) {
    float lane[LANES] = {0}, sum = 0;
    ptrdiff_t i = 0;
    for (; i + LANES <= n; i += LANES)
        for (int k = 0; k < LANES; k++) lane[k] += a[i + k] * b[i + k];
    for (int k = 0; k < LANES; k++) sum += lane[k];
    for (; i < n; i++) sum += a[i] * b[i];
    return sum;
}

INLINE float largest(const float *x, ptrdiff_t n) {
    float best = x[0];
    for (ptrdiff_t i = 1; i < n; i++) best = x[i] > best ? x[i] : best;
    return best;
}

INLINE float similarity(const Tile *t, const float *query, const float *bounds, ptrdiff_t row) {
    return t->exact ? bounds[row] : dot(query, t->memory + row * t->width, t->width);
}

/* The threshold of the candidates (Michelot); those that get no weight are dropped. */
static double project(Candidates *c) {
    for (;;) {
        double sum = 0, tau;
        ptrdiff_t kept = 0;
        for (ptrdiff_t i = 0; i < c->count; i++) sum += (double)c->value[i];
        tau = (sum - 1) / (double)c->count;
        for (ptrdiff_t i = 0; i < c->count; i++) {
            c->value[kept] = c->value[i];
            c->row[kept] = c->row[i];
            kept += c->value[i] > tau;
        }
        if (kept == c->count || kept == 0) return tau;
        c->count = kept;
    }
}

/* Finds the best bound of each block. */
INLINE void survey(const Tile *t, const float *bounds) {
    for (ptrdiff_t from = 0, block = 0; from < t->size; from += LANES, block++)
        t->best[block] = largest(bounds + from, from + LANES < t->size ? LANES : t->size - from);
}

/* The bound of the FIRST-th best block. */
INLINE float promising(const Tile *t) {
    float top[FIRST];
    for (int k = 0; k < FIRST; k++) top[k] = -INFINITY;
    for (ptrdiff_t block = 0; block * LANES < t->size; block++) {
        float most = t->best[block];
        if (!(most > top[FIRST - 1])) continue;
        int place = FIRST - 1;
        for (; place > 0 && top[place - 1] < most; place--) top[place] = top[place - 1];
        top[place] = most;
    }
    return top[FIRST - 1];
}

/* Appends the rows with low <= bound < high. */
INLINE void collect(const Tile *t, const float *bounds, float low, float high, Candidates *c) {
    for (ptrdiff_t from = 0, block = 0; from < t->size; from += LANES, block++) {
        if (t->best[block] < low) continue;
        ptrdiff_t end = from + LANES < t->size ? from + LANES : t->size;
        for (ptrdiff_t j = from; j < end; j++) {
            c->row[c->count] = j;
            c->count += bounds[j] >= low && bounds[j] < high;
        }
    }
}

/* The rows lie far apart in memory: the next one is fetched while this one is compared. */
INLINE void fetch(const Tile *t, const Candidates *c, ptrdiff_t i) {
    if (t->exact || i >= c->count) return;
    const float *row = t->memory + c->row[i] * t->width;
    for (ptrdiff_t k = 0; k < t->width; k += 16) PREFETCH(row + k);
}

/* Rows of the first tile are compared in rounds of falling bounds, so that the threshold rises early;
   of later ones at once. */
INLINE double candidates(const Tile *t, const float *query, const float *bounds, double tau,
                         Candidates *c) {
    survey(t, bounds);
    float low = c->count ? (float)tau - t->slack : promising(t), high = INFINITY, step = STEP;
    double sum = c->count ? tau * (double)c->count + 1 : 0;
    for (;;) {
        ptrdiff_t before = c->count, kept = before;
        collect(t, bounds, low, high, c);
        for (ptrdiff_t i = kept; i < c->count; i++) {
            fetch(t, c, i + 2);
            if (bounds[c->row[i]] < (float)tau - t->slack) continue;
            float z = similarity(t, query, bounds, c->row[i]);
            if (z <= tau) continue;
            c->row[kept] = c->row[i] + t->from;
            c->value[kept++] = z;
            sum += (double)z;
            tau = (sum - 1) / (double)kept;
        }
        c->count = kept;
        if (kept > before) tau = project(c);
        sum = tau * (double)c->count + 1;
        high = low;
        low = (float)tau - t->slack;
        if (low >= high || !(high > -INFINITY)) return tau;
        if (low < high - step) low = high - step;
        step *= 2;
    }
}

static int reserve(Candidates *c, ptrdiff_t room) {
    if (c->room >= room) return 1;
    float *value = realloc(c->value, (size_t)room * sizeof(float));
    if (value) c->value = value;
    ptrdiff_t *row = realloc(c->row, (size_t)room * sizeof(ptrdiff_t));
    if (row) c->row = row;
    if (!value || !row) return 0;
    c->room = room;
    return 1;
}

static void copy(Candidates *to, const Candidates *from) {
    memcpy(to->value, from->value, (size_t)from->count * sizeof(float));
    memcpy(to->row, from->row, (size_t)from->count * sizeof(ptrdiff_t));
    to->count = from->count;
}

INLINE int sift(Search *s, const Tile *t, Candidates *scratch) {
    for (ptrdiff_t i = 0; i < s->count; i++) {
        Candidates *kept = s->kept + i;
        if (!reserve(scratch, kept->count + t->size + 1)) return 0;
        copy(scratch, kept);
        const float *query = s->queries + i * s->width;
        s->tau[i] = candidates(t, query, t->bounds + i * t->size, s->tau[i], scratch);
        if (!reserve(kept, scratch->count)) return 0;
        copy(kept, scratch);
    }
    return 1;
}

INLINE void rebuild(const Search *s, float *distances, float *rebuilt) {
    for (ptrdiff_t i = 0; i < s->count; i++) {
        const float *query = s->queries + i * s->width;
        const Candidates *c = s->kept + i;
        memset(rebuilt, 0, (size_t)s->width * sizeof(float));
        for (ptrdiff_t j = 0; j < c->count; j++) {
            const float *row = s->memory + c->row[j] * s->width;
            float weight = (float)((double)c->value[j] - s->tau[i]);
            for (ptrdiff_t k = 0; k < s->width; k++) rebuilt[k] += weight * row[k];
        }
        float lengths = dot(rebuilt, rebuilt, s->width) * dot(query, query, s->width);
        distances[i] = 1 - dot(query, rebuilt, s->width) / sqrtf(lengths);
    }
}

#define FOR_SET(set, attributes)                                                              \
    attributes static int sift_##set(Search *s, const Tile *t, Candidates *scratch) {          \
        return sift(s, t, scratch);                                                            \
    }                                                                                          \
    attributes static void rebuild_##set(const Search *s, float *distances, float *rebuilt) {  \
        rebuild(s, distances, rebuilt);                                                        \
    }

enum { PLAIN, AVX2, AVX512 };
FOR_SET(plain, )
#ifdef CHOICE
FOR_SET(avx2, __attribute__((target("avx2,fma"))))
FOR_SET(avx512, __attribute__((target("avx512f,avx2,fma"))))
#endif

/* The best instruction set of this machine. Features are asked for, never models: a newer processor
   that has them is no older model. */
EXPORT int best_set(void) {
#ifdef CHOICE
    __builtin_cpu_init();
    if (!__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("fma")) return PLAIN;
    return __builtin_cpu_supports("avx512f") ? AVX512 : AVX2;
#else
    return PLAIN;
#endif
}

EXPORT const char *set_name(int set) {
    if (set == AVX512) return "avx512";
    if (set == AVX2) return "avx2";
#if defined(__aarch64__) || defined(_M_ARM64)
    return "neon";
#elif defined(__x86_64__) || defined(_M_X64)
    return "sse2";
#else
    return "plain";
#endif
}

EXPORT void search_end(Search *s) {
    if (!s) return;
    for (ptrdiff_t i = 0; s->kept && i < s->count; i++) {
        free(s->kept[i].value);
        free(s->kept[i].row);
    }
    free(s->kept);
    free(s->tau);
    free(s);
}

/* A search of queries in a memory of rows of some width; NULL where there is no room for it. */
EXPORT Search *search_begin(const float *queries, ptrdiff_t count, const float *memory,
                            ptrdiff_t width, int set) {
    Search *s = calloc(1, sizeof(Search));
    if (!s) return NULL;
    s->queries = queries;
    s->memory = memory;
    s->count = count;
    s->width = width;
    s->set = set;
    s->kept = calloc((size_t)count + 1, sizeof(Candidates));
    s->tau = malloc(((size_t)count + 1) * sizeof(double));
    if (!s->kept || !s->tau) {
        search_end(s);
        return NULL;
    }
    for (ptrdiff_t i = 0; i < count; i++) s->tau[i] = -INFINITY;
    return s;
}

/* Bounds of a tile of the memory, from its first row on; 0 where there is no room for it. */
EXPORT int search_offer(Search *s, const float *bounds, ptrdiff_t from, ptrdiff_t size, int exact,
                        float slack) {
    const float *memory = s->memory + from * s->width;
    float *best = malloc((size_t)(size / LANES + 1) * sizeof(float));
    Tile t = {memory, bounds, from, size, s->width, exact, slack, best};
    Candidates scratch = {NULL, NULL, 0, 0};
    int enough = best != NULL;
    if (enough) {
#ifdef CHOICE
        if (s->set == AVX512)
            enough = sift_avx512(s, &t, &scratch);
        else if (s->set == AVX2)
            enough = sift_avx2(s, &t, &scratch);
        else
#endif
            enough = sift_plain(s, &t, &scratch);
    }
    free(best);
    free(scratch.value);
    free(scratch.row);
    return enough;
}

/* Distances of the queries to their reconstructions; 0 where there is no room for it. */
EXPORT int search_finish(const Search *s, float *distances) {
    float *rebuilt = malloc((size_t)s->width * sizeof(float));
    if (!rebuilt) return 0;
#ifdef CHOICE
    if (s->set == AVX512)
        rebuild_avx512(s, distances, rebuilt);
    else if (s->set == AVX2)
        rebuild_avx2(s, distances, rebuilt);
    else
#endif
        rebuild_plain(s, distances, rebuilt);
    free(rebuilt);
    return 1;
}
