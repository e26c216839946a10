/* Sparsemax matching of some query patches in one pass, without sorting and without dense weights.

   For each query q, given an upper bound u_j >= <q, p_j> for every row p_j of the memory:

   1. some rows with the largest bounds are compared exactly; the threshold of any subset of
      candidates is a lower bound of the true threshold tau, since
      tau = max over subsets T of (sum of z over T - 1) / |T|;
   2. whatever has a bound above that (plus room for rounding) is compared as well, while the
      threshold rises; by Proposition 1 nothing else can get any weight;
   3. w = z - tau over the rows left, e = sum w p, and the distance is 1 - <q, e> / (|q| |e|). (<q, e>
      would be sum w z, but what rounding does to e over thousands of rows cancels only this way.)
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
    const float *memory, *bounds;
    Py_ssize_t size, width;
    int exact;   /* the bounds are the similarities themselves */
    float slack; /* rounding */
} Problem;

typedef struct {
    float *value;
    Py_ssize_t *row;
    Py_ssize_t count;
    float *best; /* the largest bound of each block of rows */
} Candidates;

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

INLINE float similarity(const Problem *p, const float *query, const float *bounds, Py_ssize_t row) {
    return p->exact ? bounds[row] : dot(query, p->memory + row * p->width, p->width);
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

/* Finds the best bound of each block; returns that of the FIRST-th best block. */
INLINE float survey(const float *bounds, Py_ssize_t size, float *best) {
    float top[FIRST];
    for (int k = 0; k < FIRST; k++) top[k] = -INFINITY;
    for (Py_ssize_t from = 0, block = 0; from < size; from += LANES, block++) {
        float most = largest(bounds + from, from + LANES < size ? LANES : size - from);
        best[block] = most;
        if (!(most > top[FIRST - 1])) continue;
        int place = FIRST - 1;
        for (; place > 0 && top[place - 1] < most; place--) top[place] = top[place - 1];
        top[place] = most;
    }
    return top[FIRST - 1];
}

/* Appends the rows with low <= bound < high. */
INLINE void collect(const float *bounds, Py_ssize_t size, float low, float high, Candidates *c) {
    for (Py_ssize_t from = 0, block = 0; from < size; from += LANES, block++) {
        if (c->best[block] < low) continue;
        Py_ssize_t end = from + LANES < size ? from + LANES : size;
        for (Py_ssize_t j = from; j < end; j++) {
            c->row[c->count] = j;
            c->count += bounds[j] >= low && bounds[j] < high;
        }
    }
}

/* The rows lie far apart in memory: the next one is fetched while this one is compared. */
INLINE void fetch(const Problem *p, const Candidates *c, Py_ssize_t i) {
    if (p->exact || i >= c->count) return;
    const float *row = p->memory + c->row[i] * p->width;
    for (Py_ssize_t k = 0; k < p->width; k += 16) PREFETCH(row + k);
}

/* Rows are compared in rounds of falling bounds, so that the threshold rises early. */
INLINE double candidates(const Problem *p, const float *query, const float *bounds, Candidates *c) {
    float low = survey(bounds, p->size, c->best), high = INFINITY, step = STEP;
    double tau = -INFINITY, sum = 0;
    c->count = 0;
    for (;;) {
        Py_ssize_t kept = c->count;
        collect(bounds, p->size, low, high, c);
        for (Py_ssize_t i = kept; i < c->count; i++) {
            fetch(p, c, i + 2);
            if (bounds[c->row[i]] < (float)tau - p->slack) continue;
            float z = similarity(p, query, bounds, c->row[i]);
            if (z <= tau) continue;
            c->row[kept] = c->row[i];
            c->value[kept++] = z;
            sum += (double)z;
            tau = (sum - 1) / (double)kept;
        }
        c->count = kept;
        tau = project(c);
        sum = tau * (double)c->count + 1;
        high = low;
        low = (float)tau - p->slack;
        if (low >= high || !(high > -INFINITY)) return tau;
        if (low < high - step) low = high - step;
        step *= 2;
    }
}

FOR_EACH_CPU
static void match(const Problem *p, const float *queries, Py_ssize_t count, float *distances,
                  Candidates *c, float *rebuilt) {
    for (Py_ssize_t i = 0; i < count; i++) {
        const float *query = queries + i * p->width;
        double tau = candidates(p, query, p->bounds + i * p->size, c);
        memset(rebuilt, 0, (size_t)p->width * sizeof(float));
        for (Py_ssize_t j = 0; j < c->count; j++) {
            const float *row = p->memory + c->row[j] * p->width;
            float weight = (float)((double)c->value[j] - tau);
            for (Py_ssize_t k = 0; k < p->width; k++) rebuilt[k] += weight * row[k];
        }
        float lengths = dot(rebuilt, rebuilt, p->width) * dot(query, query, p->width);
        distances[i] = 1 - dot(query, rebuilt, p->width) / sqrtf(lengths);
    }
}

static PyObject *distances(PyObject *self, PyObject *args) {
    Py_buffer queries, memory, bounds, out;
    Py_ssize_t width;
    Problem p;
    (void)self;
    if (!PyArg_ParseTuple(args, "y*y*y*w*npf", &queries, &memory, &bounds, &out, &width, &p.exact,
                          &p.slack))
        return NULL;
    Py_ssize_t each = width * (Py_ssize_t)sizeof(float), count = 0;
    p.size = p.width = 0;
    if (width > 0 && queries.len % each == 0 && memory.len % each == 0) {
        count = queries.len / each;
        p.size = memory.len / each;
        p.width = width;
    }
    int fits = p.size > 0 && bounds.len / (Py_ssize_t)sizeof(float) == count * p.size &&
               out.len / (Py_ssize_t)sizeof(float) == count;
    Candidates c = {NULL, NULL, 0, NULL};
    float *rebuilt = NULL;
    if (fits) {
        c.value = malloc((size_t)p.size * sizeof(float));
        c.row = malloc(((size_t)p.size + 1) * sizeof(Py_ssize_t));
        c.best = malloc((size_t)(p.size / LANES + 1) * sizeof(float));
        rebuilt = malloc((size_t)each);
        if (c.value && c.row && c.best && rebuilt) {
            p.memory = memory.buf;
            p.bounds = bounds.buf;
            Py_BEGIN_ALLOW_THREADS
            match(&p, queries.buf, count, out.buf, &c, rebuilt);
            Py_END_ALLOW_THREADS
        } else {
            PyErr_NoMemory();
        }
    } else {
        PyErr_SetString(PyExc_ValueError, "the shapes do not fit together");
    }
    free(c.value);
    free(c.row);
    free(c.best);
    free(rebuilt);
    PyBuffer_Release(&queries);
    PyBuffer_Release(&memory);
    PyBuffer_Release(&bounds);
    PyBuffer_Release(&out);
    if (PyErr_Occurred()) return NULL;
    Py_RETURN_NONE;
}

static PyMethodDef methods[] = {
    {"distances", distances, METH_VARARGS, "Distances of queries to their sparsemax reconstructions."},
    {NULL, NULL, 0, NULL}};

static struct PyModuleDef module = {PyModuleDef_HEAD_INIT, "_kernel", NULL, -1, methods, NULL, NULL,
                                    NULL, NULL};

PyMODINIT_FUNC PyInit__kernel(void) { return PyModule_Create(&module); }
