/* Times calls of exports through TensorFlow's C API, the exports taking turns.
 *
 *     serving_latency ROWS STEPS WORDS TURNS CALLS DIRECTORY ...
 *
 * Each call sends ROWS x STEPS word ids below WORDS, and full lengths to those that take lengths. In
 * a turn each export is called CALLS times in a row, after one call that does not count. For each
 * call a line is printed: the number of the export, and microseconds.
 */
#define _POSIX_C_SOURCE 200809L

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "saved_model.h"

enum { FIRST_DIRECTORY = 6, MOST_INPUTS = 2, MOST_OUTPUTS = 3 };

typedef struct {
    SavedModel model;
    Endpoint inputs[MOST_INPUTS], outputs[MOST_OUTPUTS];
    int input_count, output_count;
} Export;

static const char *const INPUT_NAMES[MOST_INPUTS] = {"words", "lengths"};
static const char *const OUTPUT_NAMES[MOST_OUTPUTS] = {"tag_ids", "confidence", "log_prob"};

/* As many of these names as the signature knows. */
static int find(SavedModel *model, Side side, const char *const *names, int count, Endpoint *found) {
    int known = 0;
    for (int i = 0; i < count; i++)
        known += saved_model_find(model, "serving_default", side, names[i], &found[known]);
    return known;
}

static void stop(const char *what, const Export *export) {
    fprintf(stderr, "serving_latency: %s: %s\n", what, TF_Message(export->model.status));
    exit(1);
}

static Export load(const char *directory) {
    Export export = {0};
    if (!saved_model_load(&export.model, directory)) stop(directory, &export);
    export.input_count = find(&export.model, INPUTS, INPUT_NAMES, MOST_INPUTS, export.inputs);
    export.output_count = find(&export.model, OUTPUTS, OUTPUT_NAMES, MOST_OUTPUTS, export.outputs);
    return export;
}

/* Whole numbers from `least` on, of `range` different values. */
static TF_Tensor *numbers(const int64_t *shape, int axes, int32_t least, int32_t range) {
    int64_t count = 1;
    for (int axis = 0; axis < axes; axis++) count *= shape[axis];
    TF_Tensor *tensor = TF_AllocateTensor(TF_INT32, shape, axes, count * sizeof(int32_t));
    int32_t *cells = TF_TensorData(tensor);
    for (int64_t i = 0; i < count; i++) cells[i] = least + rand() % range;
    return tensor;
}

static double microseconds(Export *export, TF_Tensor *const *values) {
    TF_Tensor *results[MOST_OUTPUTS];
    struct timespec begin, end;
    clock_gettime(CLOCK_MONOTONIC, &begin);
    if (!saved_model_run(&export->model, export->inputs, values, export->input_count,
                         export->outputs, results, export->output_count))
        stop("a call failed", export);
    clock_gettime(CLOCK_MONOTONIC, &end);
    for (int i = 0; i < export->output_count; i++) TF_DeleteTensor(results[i]);
    return 1e6 * (end.tv_sec - begin.tv_sec) + 1e-3 * (end.tv_nsec - begin.tv_nsec);
}

int main(int count, char **arguments) {
    if (count <= FIRST_DIRECTORY) {
        fprintf(stderr, "serving_latency ROWS STEPS WORDS TURNS CALLS DIRECTORY ...\n");
        return 2;
    }
    const int64_t shape[] = {atoi(arguments[1]), atoi(arguments[2])};
    int turns = atoi(arguments[4]), calls = atoi(arguments[5]);
    int export_count = count - FIRST_DIRECTORY;
    Export *exports = calloc(export_count, sizeof *exports);
    for (int i = 0; i < export_count; i++) exports[i] = load(arguments[FIRST_DIRECTORY + i]);
    TF_Tensor *words = numbers(shape, 2, 1, atoi(arguments[3]) - 1);
    TF_Tensor *values[] = {words, numbers(shape, 1, shape[1], 1)};
    for (int turn = 0; turn < turns; turn++)
        for (int i = 0; i < export_count; i++) {
            microseconds(&exports[i], values);
            for (int call = 0; call < calls; call++)
                printf("%d %.1f\n", i, microseconds(&exports[i], values));
        }
    for (int i = 0; i < MOST_INPUTS; i++) TF_DeleteTensor(values[i]);
    for (int i = 0; i < export_count; i++) saved_model_free(&exports[i].model);
    free(exports);
    return 0;
}
