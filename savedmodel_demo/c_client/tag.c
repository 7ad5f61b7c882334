/* Tags text with an export, by TensorFlow's C API: no Python, no Keras, no keras_crf.
 *
 *     tag DIRECTORY TOKEN ...     tags one sentence
 *     tag DIRECTORY               tags each line of standard input, until it ends
 *
 * Tokens of a line are separated by spaces. "N<TAB>" before them tags the first N only. The answer
 * is a line TOKEN<TAB>TAG<TAB>CONFIDENCE per token, and an empty line per sentence. A line that
 * cannot be tagged is answered by "tag: ..." on standard error, and the next one is read. (There
 * TensorFlow writes its log as well; TF_CPP_MIN_LOG_LEVEL=2 silences most of it.)
 */
#define _POSIX_C_SOURCE 200809L

#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "saved_model.h"

enum { ALL_TAGGED = 0, SOME_FAILED = 1, WRONG_USAGE = 2, NO_TAGGER = 3 };
enum { WORDS, LENGTHS, INPUT_COUNT };
enum { TAGS, CONFIDENCE, OUTPUT_COUNT };

typedef struct {
    SavedModel model;
    Endpoint inputs[INPUT_COUNT], outputs[OUTPUT_COUNT];
} Tagger;

static int has_type(Tagger *tagger, const Endpoint *endpoint, TF_DataType wanted, const char *name) {
    if (endpoint->dtype == wanted) return 1;
    char message[160];
    snprintf(message, sizeof message,
             "%s has dtype %d of the C API's TF_DataType, this program wants %d%s", name,
             endpoint->dtype, wanted,
             wanted == TF_STRING ? " (strings): export a model that looks words up itself" : "");
    TF_SetStatus(tagger->model.status, TF_INVALID_ARGUMENT, message);
    return 0;
}

static int has_rank(Tagger *tagger, const Endpoint *endpoint, int wanted, const char *name) {
    SavedModel *model = &tagger->model;
    int rank = TF_GraphGetTensorNumDims(model->graph, endpoint->tensor, model->status);
    if (TF_GetCode(model->status) != TF_OK) return 0;
    if (rank == wanted) return 1;
    char message[160];
    snprintf(message, sizeof message, "%s has rank %d, this program wants %d", name, rank, wanted);
    TF_SetStatus(model->status, TF_INVALID_ARGUMENT, message);
    return 0;
}

static int load(Tagger *tagger, const char *directory) {
    SavedModel *model = &tagger->model;
    const char *signature = "serving_default";
    Endpoint *inputs = tagger->inputs, *outputs = tagger->outputs;
    return saved_model_load(model, directory) &&
           saved_model_find(model, signature, INPUTS, "words", &inputs[WORDS]) &&
           saved_model_find(model, signature, INPUTS, "lengths", &inputs[LENGTHS]) &&
           saved_model_find(model, signature, OUTPUTS, "tags", &outputs[TAGS]) &&
           saved_model_find(model, signature, OUTPUTS, "confidence", &outputs[CONFIDENCE]) &&
           has_type(tagger, &inputs[WORDS], TF_STRING, "words") &&
           has_type(tagger, &inputs[LENGTHS], TF_INT32, "lengths") &&
           has_type(tagger, &outputs[TAGS], TF_STRING, "tags") &&
           has_type(tagger, &outputs[CONFIDENCE], TF_FLOAT, "confidence") &&
           has_rank(tagger, &inputs[WORDS], 2, "words") &&
           has_rank(tagger, &inputs[LENGTHS], 1, "lengths");
}

/* A batch of one row of strings, [1, count]. */
static TF_Tensor *strings(char *const *tokens, int64_t count) {
    const int64_t shape[] = {1, count};
    TF_Tensor *tensor = TF_AllocateTensor(TF_STRING, shape, 2, count * sizeof(TF_TString));
    TF_TString *cells = TF_TensorData(tensor);
    for (int64_t i = 0; i < count; i++) {
        TF_StringInit(&cells[i]);
        TF_StringCopy(&cells[i], tokens[i], strlen(tokens[i]));
    }
    return tensor;
}

static void delete_strings(TF_Tensor *tensor) {
    TF_TString *cells = TF_TensorData(tensor);
    for (int64_t i = 0; i < TF_TensorElementCount(tensor); i++) TF_StringDealloc(&cells[i]);
    TF_DeleteTensor(tensor);
}

static TF_Tensor *one_number(int32_t value) {
    const int64_t shape[] = {1};
    TF_Tensor *tensor = TF_AllocateTensor(TF_INT32, shape, 1, sizeof value);
    memcpy(TF_TensorData(tensor), &value, sizeof value);
    return tensor;
}

static void print_tagged(char *const *tokens, int32_t length, TF_Tensor **results) {
    const TF_TString *tags = TF_TensorData(results[TAGS]);
    const float *confidence = TF_TensorData(results[CONFIDENCE]);
    for (int32_t i = 0; i < length; i++)
        printf("%s\t%.*s\t%.4f\n", tokens[i], (int)TF_StringGetSize(&tags[i]),
               TF_StringGetDataPointer(&tags[i]), confidence[i]);
    printf("\n");
    fflush(stdout);
}

/* The first line of what TensorFlow says; what follows speaks of its nodes. */
static void complain(const char *about, const Tagger *tagger) {
    const char *message = TF_Message(tagger->model.status);
    fprintf(stderr, "tag: %s: %.*s\n", about, (int)strcspn(message, "\n"), message);
}

static int tag(Tagger *tagger, char *const *tokens, int64_t count, int32_t length) {
    TF_Tensor *values[] = {strings(tokens, count), one_number(length)}, *results[OUTPUT_COUNT];
    int tagged = saved_model_run(&tagger->model, tagger->inputs, values, INPUT_COUNT,
                                 tagger->outputs, results, OUTPUT_COUNT);
    if (tagged)
        print_tagged(tokens, length, results);
    else
        complain("not tagged", tagger);
    delete_strings(values[WORDS]);
    TF_DeleteTensor(values[LENGTHS]);
    for (int i = 0; i < OUTPUT_COUNT; i++)
        if (results[i]) TF_DeleteTensor(results[i]);
    return tagged;
}

/* Cuts a line into its tokens, in place; how many there are. */
static int64_t split(char *line, char **tokens) {
    int64_t count = 0;
    for (char *token = strtok(line, " "); token; token = strtok(NULL, " ")) tokens[count++] = token;
    return count;
}

/* How many of the tokens to tag: all, or the number before a tab; 0, with a complaint, if that is
 * no number or does not fit. */
static int32_t length_of(const char *line, const char *tab, int64_t count) {
    if (!tab) return (int32_t)count;
    char *end;
    errno = 0;
    long length = strtol(line, &end, 10);
    if (end != tab || errno) {
        fprintf(stderr, "tag: before a tab stands how many tokens to tag, got %.*s\n",
                (int)(tab - line), line);
        return 0;
    }
    if (1 <= length && length <= count) return (int32_t)length;
    fprintf(stderr,
            "tag: the number before a tab must lie in 1..%lld, the tokens of the line; got %ld\n",
            (long long)count, length);
    return 0;
}

static int tag_line(Tagger *tagger, char *line) {
    char *tab = strchr(line, '\t'), *text = tab ? tab + 1 : line;
    char **tokens = malloc((strlen(text) / 2 + 1) * sizeof *tokens);
    int64_t count = split(text, tokens);
    int32_t length = length_of(line, tab, count);
    int tagged = length ? tag(tagger, tokens, count, length) : !tab; /* or there are no tokens */
    free(tokens);
    return tagged;
}

static int tag_lines(Tagger *tagger, FILE *file) {
    char *line = NULL;
    size_t size = 0;
    int all_tagged = 1;
    while (getline(&line, &size, file) != -1) {
        line[strcspn(line, "\r\n")] = '\0';
        all_tagged &= tag_line(tagger, line);
    }
    free(line);
    return all_tagged;
}

int main(int count, char **arguments) {
    if (count < 2) {
        fprintf(stderr, "tag: wants arguments, DIRECTORY [TOKEN ...]\n");
        return WRONG_USAGE;
    }
    Tagger tagger = {0};
    int status = NO_TAGGER;
    if (!load(&tagger, arguments[1])) {
        complain(arguments[1], &tagger);
    } else {
        int tagged = count > 2 ? tag(&tagger, arguments + 2, count - 2, count - 2)
                               : tag_lines(&tagger, stdin);
        status = tagged ? ALL_TAGGED : SOME_FAILED;
    }
    saved_model_free(&tagger.model);
    return status;
}
