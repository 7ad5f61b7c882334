/* A linear-chain CRF in plain C: loss with gradients, and Viterbi, rows shared out to two threads.
 *
 * What can be expected of hand-written loops, to compare keras_crf with. Rabiner's scaled
 * forward-backward on exponentials, and Viterbi with stored back-pointers.
 *
 *     cc -O3 -pthread reference.c -o reference -lm
 *     reference DIRECTORY      then, on standard input, lines "loss I", "decode I" or "check I"
 *
 * DIRECTORY/I.bin holds int32 B, T, K, lengths [B], tags [B, T], then float32 potentials [B, T, K]
 * and transitions [K, K]. Each line is answered by the milliseconds taken; after "check" the results
 * lie in DIRECTORY/I.c: float32 loss, d loss / d potentials, d loss / d transitions, best scores [B].
 */
#include <math.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { THREADS = 2, SHAPES = 16 };

typedef struct {
    int32_t batch, time, tags;
    int32_t *lengths, *gold, *best;
    float *potentials, *transitions;
    float *exp_transitions, *exp_transposed;
    float *gradient, *scores;
    float *counts[THREADS], *alpha[THREADS], *incoming[THREADS];
    int32_t *pointers[THREADS];
    double losses[THREADS];
} Problem;

typedef struct {
    Problem *problem;
    int thread;
} Share;

static float largest_of(const float *values, int count) {
    float largest = values[0];
    for (int k = 1; k < count; k++)
        if (values[k] > largest) largest = values[k];
    return largest;
}

/* out[j] = sum_i in[i] matrix[i][j] */
static void product(const float *in, const float *matrix, float *out, int tags) {
    memset(out, 0, tags * sizeof(float));
    for (int i = 0; i < tags; i++) {
        const float weight = in[i], *row = matrix + (size_t)i * tags;
        for (int j = 0; j < tags; j++) out[j] += weight * row[j];
    }
}

/* alpha_t = exp(potentials_t) incoming_t, scaled to the sum 1; incoming_{t+1} = alpha_t exp(T) */
static double forward(Problem *p, int row, float *alpha, float *incoming) {
    int tags = p->tags;
    const float *potentials = p->potentials + (size_t)row * p->time * tags;
    double log_partition = 0;
    for (int t = 0; t < p->lengths[row]; t++) {
        const float *u = potentials + (size_t)t * tags;
        float *a = alpha + (size_t)t * tags, *in = incoming + (size_t)t * tags;
        float shift = largest_of(u, tags), sum = 0;
        if (t)
            product(a - tags, p->exp_transitions, in, tags);
        else
            for (int k = 0; k < tags; k++) in[k] = 1;
        for (int k = 0; k < tags; k++) a[k] = expf(u[k] - shift) * in[k];
        for (int k = 0; k < tags; k++) sum += a[k];
        for (int k = 0; k < tags; k++) a[k] /= sum;
        log_partition += shift + log(sum);
    }
    return log_partition;
}

/* marginals from the right: p(y_{t-1} = i) = alpha_{t-1}[i] sum_j exp(T)[i][j] p(y_t = j) / in_t[j] */
static void backward(Problem *p, int row, const float *alpha, const float *incoming, float *counts) {
    int tags = p->tags, length = p->lengths[row];
    const int32_t *gold = p->gold + (size_t)row * p->time;
    float *gradient = p->gradient + (size_t)row * p->time * tags;
    float ahead[tags], behind[tags];
    memset(gradient + (size_t)length * tags, 0, (size_t)(p->time - length) * tags * sizeof(float));
    for (int t = length - 1; t >= 0; t--) {
        const float *a = alpha + (size_t)t * tags, *in = incoming + (size_t)t * tags;
        float *g = gradient + (size_t)t * tags;
        for (int k = 0; k < tags; k++) g[k] = t == length - 1 ? a[k] : a[k] * behind[k];
        for (int k = 0; k < tags; k++) ahead[k] = g[k] / in[k];
        if (t) {
            const float *before = a - tags;
            for (int i = 0; i < tags; i++)
                for (int j = 0; j < tags; j++) counts[i * tags + j] += before[i] * ahead[j];
            product(ahead, p->exp_transposed, behind, tags);
        }
        g[gold[t]] -= 1;
    }
}

static double gold_score(const Problem *p, int row) {
    const int32_t *gold = p->gold + (size_t)row * p->time;
    const float *potentials = p->potentials + (size_t)row * p->time * p->tags;
    double score = 0;
    for (int t = 0; t < p->lengths[row]; t++) {
        score += potentials[(size_t)t * p->tags + gold[t]];
        if (t) score += p->transitions[gold[t - 1] * p->tags + gold[t]];
    }
    return score;
}

static void *loss_share(void *share) {
    Problem *p = ((Share *)share)->problem;
    int thread = ((Share *)share)->thread;
    memset(p->counts[thread], 0, (size_t)p->tags * p->tags * sizeof(float));
    p->losses[thread] = 0;
    for (int row = thread; row < p->batch; row += THREADS) {
        double log_partition = forward(p, row, p->alpha[thread], p->incoming[thread]);
        backward(p, row, p->alpha[thread], p->incoming[thread], p->counts[thread]);
        p->losses[thread] += log_partition - gold_score(p, row);
    }
    return NULL;
}

static void *decode_share(void *share) {
    Problem *p = ((Share *)share)->problem;
    int thread = ((Share *)share)->thread, tags = p->tags;
    float *best = p->alpha[thread];
    for (int row = thread; row < p->batch; row += THREADS) {
        const float *u = p->potentials + (size_t)row * p->time * tags;
        int32_t *pointers = p->pointers[thread], *path = p->best + (size_t)row * p->time;
        int length = p->lengths[row], tag = 0;
        memcpy(best, u, tags * sizeof(float));
        for (int t = 1; t < length; t++) {
            float *next = best + (t % 2) * tags, *now = best + ((t + 1) % 2) * tags;
            int32_t *pointer = pointers + (size_t)t * tags;
            for (int j = 0; j < tags; j++) next[j] = -INFINITY, pointer[j] = 0;
            for (int i = 0; i < tags; i++) {
                const float from = now[i], *arrive = p->transitions + (size_t)i * tags;
                for (int j = 0; j < tags; j++) {
                    float score = from + arrive[j];
                    pointer[j] = score > next[j] ? i : pointer[j];
                    next[j] = score > next[j] ? score : next[j];
                }
            }
            for (int j = 0; j < tags; j++) next[j] += u[(size_t)t * tags + j];
        }
        const float *last = best + ((length + 1) % 2) * tags;
        for (int k = 1; k < tags; k++)
            if (last[k] > last[tag]) tag = k;
        p->scores[row] = last[tag];
        memset(path, 0, p->time * sizeof(int32_t));
        for (int t = length - 1; t >= 0; t--) {
            path[t] = tag;
            tag = pointers[(size_t)t * tags + tag];
        }
    }
    return NULL;
}

static void in_threads(Problem *p, void *(*work)(void *)) {
    pthread_t others[THREADS];
    Share shares[THREADS];
    for (int t = 0; t < THREADS; t++) shares[t] = (Share){p, t};
    for (int t = 1; t < THREADS; t++) pthread_create(&others[t], NULL, work, &shares[t]);
    work(&shares[0]);
    for (int t = 1; t < THREADS; t++) pthread_join(others[t], NULL);
}

static void loss(Problem *p) {
    int tags = p->tags;
    for (int i = 0; i < tags; i++)
        for (int j = 0; j < tags; j++) {
            float value = expf(p->transitions[i * tags + j]);
            p->exp_transitions[i * tags + j] = p->exp_transposed[j * tags + i] = value;
        }
    in_threads(p, loss_share);
    for (int t = 1; t < THREADS; t++) {
        p->losses[0] += p->losses[t];
        for (int k = 0; k < tags * tags; k++) p->counts[0][k] += p->counts[t][k];
    }
    for (int k = 0; k < tags * tags; k++) p->counts[0][k] *= p->exp_transitions[k];
    for (int row = 0; row < p->batch; row++) {
        const int32_t *gold = p->gold + (size_t)row * p->time;
        for (int t = 1; t < p->lengths[row]; t++) p->counts[0][gold[t - 1] * tags + gold[t]] -= 1;
    }
}

static void decode(Problem *p) { in_threads(p, decode_share); }

static double milliseconds(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1e3 + now.tv_nsec * 1e-6;
}

static void *read_or_die(FILE *file, size_t size) {
    void *memory = malloc(size);
    if (!memory || fread(memory, 1, size, file) != size) exit(1);
    return memory;
}

static Problem *load(const char *directory, int index) {
    char path[4096];
    snprintf(path, sizeof path, "%s/%d.bin", directory, index);
    FILE *file = fopen(path, "rb");
    Problem *p = calloc(1, sizeof *p);
    if (!file || fread(p, sizeof(int32_t), 3, file) != 3) exit(1);
    size_t steps = (size_t)p->batch * p->time, scores = steps * p->tags;
    size_t pairs = (size_t)p->tags * p->tags;
    p->lengths = read_or_die(file, p->batch * sizeof(int32_t));
    p->gold = read_or_die(file, steps * sizeof(int32_t));
    p->potentials = read_or_die(file, scores * sizeof(float));
    p->transitions = read_or_die(file, pairs * sizeof(float));
    p->best = calloc(steps, sizeof(int32_t));
    p->exp_transitions = calloc(pairs, sizeof(float));
    p->exp_transposed = calloc(pairs, sizeof(float));
    p->gradient = calloc(scores, sizeof(float));
    p->scores = calloc(p->batch, sizeof(float));
    for (int t = 0; t < THREADS; t++) {
        size_t row = ((size_t)p->time + 2) * p->tags;
        p->counts[t] = calloc(pairs, sizeof(float));
        p->alpha[t] = calloc(row, sizeof(float));
        p->incoming[t] = calloc(row, sizeof(float));
        p->pointers[t] = calloc(row, sizeof(int32_t));
    }
    fclose(file);
    return p;
}

static void check(Problem *p, const char *directory, int index) {
    char path[4096];
    snprintf(path, sizeof path, "%s/%d.c", directory, index);
    FILE *file = fopen(path, "wb");
    loss(p);
    decode(p);
    float total = p->losses[0];
    fwrite(&total, sizeof(float), 1, file);
    fwrite(p->gradient, sizeof(float), (size_t)p->batch * p->time * p->tags, file);
    fwrite(p->counts[0], sizeof(float), (size_t)p->tags * p->tags, file);
    fwrite(p->scores, sizeof(float), p->batch, file);
    fclose(file);
}

int main(int count, char **arguments) {
    static Problem *problems[SHAPES];
    char task[16];
    int index;
    if (count != 2) return 1;
    while (scanf("%15s %d", task, &index) == 2) {
        if (index < 0 || index >= SHAPES) return 1;
        Problem *p = problems[index];
        if (!p) p = problems[index] = load(arguments[1], index);
        double begin = milliseconds();
        if (!strcmp(task, "loss")) loss(p);
        if (!strcmp(task, "decode")) decode(p);
        if (!strcmp(task, "check")) check(p, arguments[1], index);
        printf("%.4f\n", milliseconds() - begin);
        fflush(stdout);
    }
    return 0;
}
