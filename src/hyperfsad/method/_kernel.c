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
*/

#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__) && defined(__linux__)
#define FOR_EACH_CPU __attribute__((target_clones("avx512f", "arch=haswell", "default")))
#define INLINE static inline __attribute__((always_inline))
#else
#define FOR_EACH_CPU
#define INLINE static inline
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
    Py_ssize_t *row;
    Py_ssize_t count, room;
} Candidates;

typedef struct {
    Py_buffer queries, memory;
    Py_ssize_t count, size, width;
    Candidates *kept; /* of each query */
    double *tau;
} Search;

typedef struct {
    const float *memory, *bounds; /* of the rows of the tile */
    Py_ssize_t from, size, width;
    int exact;   /* the bounds are the similarities themselves */
    float slack; /* rounding */
    float *best; /* the largest bound of each block of rows */
} Tile;

INLINE float dot(const float *a, const float *b, Py_ssize_t n) {
    float lane[LANES] = {0}, sum = 0;
    Py_ssize_t i = 0;
    for (; i + LANES <= n; i += LANES)
        for (int k = 0; k < LANES; k++) lane[k] += a[i + k] * b[i + k];
    for (int k = 0; k < LANES; k++) sum += lane[k];
    for (; i < n; i++) sum += a[i] * b[i];
    return sum;
}

INLINE float largest(const float *x, Py_ssize_t n) {
    float best = x[0];
    for (Py_ssize_t i = 1; i < n; i++) best = x[i] > best ? x[i] : best;
    return best;
}

INLINE float similarity(const Tile *t, const float *query, const float *bounds, Py_ssize_t row) {
    return t->exact ? bounds[row] : dot(query, t->memory + row * t->width, t->width);
}

/* The threshold of the candidates (Michelot); those that get no weight are dropped. */
static double project(Candidates *c) {
    for (;;) {
        double sum = 0, tau;
        Py_ssize_t kept = 0;
        for (Py_ssize_t i = 0; i < c->count; i++) sum += (double)c->value[i];
        tau = (sum - 1) / (double)c->count;
        for (Py_ssize_t i = 0; i < c->count; i++) {
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
    for (Py_ssize_t from = 0, block = 0; from < t->size; from += LANES, block++)
        t->best[block] = largest(bounds + from, from + LANES < t->size ? LANES : t->size - from);
}

/* The bound of the FIRST-th best block. */
INLINE float promising(const Tile *t) {
    float top[FIRST];
    for (int k = 0; k < FIRST; k++) top[k] = -INFINITY;
    for (Py_ssize_t block = 0; block * LANES < t->size; block++) {
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
    for (Py_ssize_t from = 0, block = 0; from < t->size; from += LANES, block++) {
        if (t->best[block] < low) continue;
        Py_ssize_t end = from + LANES < t->size ? from + LANES : t->size;
        for (Py_ssize_t j = from; j < end; j++) {
            c->row[c->count] = j;
            c->count += bounds[j] >= low && bounds[j] < high;
        }
    }
}

/* The rows lie far apart in memory: the next one is fetched while this one is compared. */
INLINE void fetch(const Tile *t, const Candidates *c, Py_ssize_t i) {
    if (t->exact || i >= c->count) return;
    const float *row = t->memory + c->row[i] * t->width;
    for (Py_ssize_t k = 0; k < t->width; k += 16) PREFETCH(row + k);
}

/* Rows of the first tile are compared in rounds of falling bounds, so that the threshold rises early;
   of later ones at once. */
INLINE double candidates(const Tile *t, const float *query, const float *bounds, double tau,
                         Candidates *c) {
    survey(t, bounds);
    float low = c->count ? (float)tau - t->slack : promising(t), high = INFINITY, step = STEP;
    double sum = c->count ? tau * (double)c->count + 1 : 0;
    for (;;) {
        Py_ssize_t before = c->count, kept = before;
        collect(t, bounds, low, high, c);
        for (Py_ssize_t i = kept; i < c->count; i++) {
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

static int reserve(Candidates *c, Py_ssize_t room) {
    if (c->room >= room) return 1;
    float *value = realloc(c->value, (size_t)room * sizeof(float));
    if (value) c->value = value;
    Py_ssize_t *row = realloc(c->row, (size_t)room * sizeof(Py_ssize_t));
    if (row) c->row = row;
    if (!value || !row) return 0;
    c->room = room;
    return 1;
}

static void copy(Candidates *to, const Candidates *from) {
    memcpy(to->value, from->value, (size_t)from->count * sizeof(float));
    memcpy(to->row, from->row, (size_t)from->count * sizeof(Py_ssize_t));
    to->count = from->count;
}

FOR_EACH_CPU
static int sift(Search *s, const Tile *t, Candidates *scratch) {
    for (Py_ssize_t i = 0; i < s->count; i++) {
        Candidates *kept = s->kept + i;
        if (!reserve(scratch, kept->count + t->size + 1)) return 0;
        copy(scratch, kept);
        const float *query = (const float *)s->queries.buf + i * s->width;
        s->tau[i] = candidates(t, query, t->bounds + i * t->size, s->tau[i], scratch);
        if (!reserve(kept, scratch->count)) return 0;
        copy(kept, scratch);
    }
    return 1;
}

FOR_EACH_CPU
static void rebuild(const Search *s, float *distances, float *rebuilt) {
    for (Py_ssize_t i = 0; i < s->count; i++) {
        const float *query = (const float *)s->queries.buf + i * s->width;
        const Candidates *c = s->kept + i;
        memset(rebuilt, 0, (size_t)s->width * sizeof(float));
        for (Py_ssize_t j = 0; j < c->count; j++) {
            const float *row = (const float *)s->memory.buf + c->row[j] * s->width;
            float weight = (float)((double)c->value[j] - s->tau[i]);
            for (Py_ssize_t k = 0; k < s->width; k++) rebuilt[k] += weight * row[k];
        }
        float lengths = dot(rebuilt, rebuilt, s->width) * dot(query, query, s->width);
        distances[i] = 1 - dot(query, rebuilt, s->width) / sqrtf(lengths);
    }
}

static const char *NAME = "hyperfsad.search";

static void destroy(PyObject *capsule) {
    Search *s = PyCapsule_GetPointer(capsule, NAME);
    for (Py_ssize_t i = 0; s->kept && i < s->count; i++) {
        free(s->kept[i].value);
        free(s->kept[i].row);
    }
    free(s->kept);
    free(s->tau);
    PyBuffer_Release(&s->queries);
    PyBuffer_Release(&s->memory);
    free(s);
}

static PyObject *begin(PyObject *self, PyObject *args) {
    (void)self;
    Search *s = calloc(1, sizeof(Search));
    if (!s) return PyErr_NoMemory();
    if (!PyArg_ParseTuple(args, "y*y*n", &s->queries, &s->memory, &s->width)) {
        free(s);
        return NULL;
    }
    PyObject *capsule = PyCapsule_New(s, NAME, destroy);
    if (!capsule) return NULL;
    Py_ssize_t each = s->width * (Py_ssize_t)sizeof(float);
    if (each <= 0 || s->queries.len % each || s->memory.len % each || !s->memory.len) {
        PyErr_SetString(PyExc_ValueError, "the shapes do not fit together");
    } else {
        s->count = s->queries.len / each;
        s->size = s->memory.len / each;
        s->kept = calloc((size_t)s->count + 1, sizeof(Candidates));
        s->tau = malloc(((size_t)s->count + 1) * sizeof(double));
        if (!s->kept || !s->tau) PyErr_NoMemory();
        for (Py_ssize_t i = 0; s->tau && i < s->count; i++) s->tau[i] = -INFINITY;
    }
    if (!PyErr_Occurred()) return capsule;
    Py_DECREF(capsule);
    return NULL;
}

static PyObject *offer(PyObject *self, PyObject *args) {
    (void)self;
    PyObject *capsule;
    Py_buffer bounds;
    Tile t;
    if (!PyArg_ParseTuple(args, "Oy*npf", &capsule, &bounds, &t.from, &t.exact, &t.slack)) return NULL;
    Search *s = PyCapsule_GetPointer(capsule, NAME);
    Py_ssize_t found = bounds.len / (Py_ssize_t)sizeof(float);
    t.size = s && s->count ? found / s->count : 0;
    if (s && t.size > 0 && found % s->count == 0 && t.from >= 0 && t.from <= s->size - t.size) {
        Candidates scratch = {NULL, NULL, 0, 0};
        t.width = s->width;
        t.memory = (const float *)s->memory.buf + t.from * t.width;
        t.bounds = bounds.buf;
        t.best = malloc((size_t)(t.size / LANES + 1) * sizeof(float));
        int enough = t.best != NULL;
        Py_BEGIN_ALLOW_THREADS
        enough = enough && sift(s, &t, &scratch);
        Py_END_ALLOW_THREADS
        if (!enough) PyErr_NoMemory();
        free(t.best);
        free(scratch.value);
        free(scratch.row);
    } else if (s) {
        PyErr_SetString(PyExc_ValueError, "the shapes do not fit together");
    }
    PyBuffer_Release(&bounds);
    if (PyErr_Occurred()) return NULL;
    Py_RETURN_NONE;
}

static PyObject *finish(PyObject *self, PyObject *args) {
    (void)self;
    PyObject *capsule;
    Py_buffer out;
    if (!PyArg_ParseTuple(args, "Ow*", &capsule, &out)) return NULL;
    Search *s = PyCapsule_GetPointer(capsule, NAME);
    if (s && out.len / (Py_ssize_t)sizeof(float) == s->count) {
        float *rebuilt = malloc((size_t)s->width * sizeof(float));
        if (rebuilt) {
            Py_BEGIN_ALLOW_THREADS
            rebuild(s, out.buf, rebuilt);
            Py_END_ALLOW_THREADS
        } else {
            PyErr_NoMemory();
        }
        free(rebuilt);
    } else if (s) {
        PyErr_SetString(PyExc_ValueError, "the shapes do not fit together");
    }
    PyBuffer_Release(&out);
    if (PyErr_Occurred()) return NULL;
    Py_RETURN_NONE;
}

static PyMethodDef methods[] = {
    {"begin", begin, METH_VARARGS, "A search of queries in a memory of rows of some width."},
    {"offer", offer, METH_VARARGS, "Bounds of a tile of the memory, from its first row on."},
    {"finish", finish, METH_VARARGS, "Distances of the queries to their reconstructions."},
    {NULL, NULL, 0, NULL}};

static struct PyModuleDef module = {PyModuleDef_HEAD_INIT, "_kernel", NULL, -1, methods, NULL, NULL,
                                    NULL, NULL};

PyMODINIT_FUNC PyInit__kernel(void) { return PyModule_Create(&module); }
