#include "saved_model.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- As much of protocol buffers as it takes to find a name. ---- */

enum { SIGNATURE_DEF = 5 };                /* of MetaGraphDef, a map */
enum { MAP_KEY = 1, MAP_VALUE = 2 };       /* of an entry of a map */
enum { TENSOR_NAME = 1, TENSOR_DTYPE = 2 }; /* of TensorInfo */

typedef struct {
    const unsigned char *at, *end;
} Bytes;

typedef struct {
    uint64_t number, value; /* the value of a number */
    Bytes bytes;            /* that of a string or message */
} Field;

static uint64_t next_varint(Bytes *bytes) {
    uint64_t value = 0;
    for (int shift = 0; bytes->at < bytes->end && shift < 64; shift += 7) {
        unsigned char byte = *bytes->at++;
        value |= (uint64_t)(byte & 127) << shift;
        if (byte < 128) break;
    }
    return value;
}

/* Takes the next field off a message; 0 at its end. */
static int next_field(Bytes *message, Field *field) {
    if (message->at >= message->end) return 0;
    uint64_t key = next_varint(message), size;
    *field = (Field){.number = key >> 3};
    switch (key & 7) {
        case 0: field->value = next_varint(message); return 1;
        case 1: size = 8; break;
        case 2: size = next_varint(message); break;
        case 5: size = 4; break;
        default: return 0;
    }
    if (size > (uint64_t)(message->end - message->at)) return 0;
    field->bytes = (Bytes){message->at, message->at + size};
    message->at += size;
    return 1;
}

static Field field_of(Bytes message, uint64_t number) {
    Field field;
    while (next_field(&message, &field))
        if (field.number == number) return field;
    return (Field){0};
}

static int is(Bytes bytes, const char *text) {
    size_t size = bytes.end - bytes.at;
    return size == strlen(text) && memcmp(bytes.at, text, size) == 0;
}

/* What a map, one of the fields of a message, holds under a key. */
static int look_up(Bytes message, uint64_t map, const char *key, Bytes *value) {
    Field entry;
    while (next_field(&message, &entry)) {
        if (entry.number != map || !is(field_of(entry.bytes, MAP_KEY).bytes, key)) continue;
        *value = field_of(entry.bytes, MAP_VALUE).bytes;
        return 1;
    }
    return 0;
}

/* ---- The model. ---- */

static int succeeded(const SavedModel *model) { return TF_GetCode(model->status) == TF_OK; }

static int not_found(SavedModel *model, const char *what, const char *name) {
    char message[400];
    snprintf(message, sizeof message, "the export has no %s named %s", what, name);
    TF_SetStatus(model->status, TF_NOT_FOUND, message);
    return 0;
}

int saved_model_load(SavedModel *model, const char *directory) {
    const char *tags[] = {"serve"};
    TF_SessionOptions *options = TF_NewSessionOptions();
    model->graph = TF_NewGraph();
    model->meta_graph = TF_NewBuffer();
    model->status = TF_NewStatus();
    model->session = TF_LoadSessionFromSavedModel(options, NULL, directory, tags, 1, model->graph,
                                                  model->meta_graph, model->status);
    TF_DeleteSessionOptions(options);
    return succeeded(model);
}

int saved_model_find(SavedModel *model, const char *signature, Side side, const char *name,
                     Endpoint *found) {
    Bytes meta_graph = {model->meta_graph->data, NULL}, definition, tensor;
    meta_graph.end = meta_graph.at + model->meta_graph->length;
    if (!look_up(meta_graph, SIGNATURE_DEF, signature, &definition))
        return not_found(model, "signature", signature);
    if (!look_up(definition, side, name, &tensor))
        return not_found(model, side == INPUTS ? "input" : "output", name);
    Bytes full = field_of(tensor, TENSOR_NAME).bytes; /* operation:index */
    char operation[256];
    snprintf(operation, sizeof operation, "%.*s", (int)(full.end - full.at), (const char *)full.at);
    char *colon = strrchr(operation, ':');
    found->tensor.index = colon ? atoi(colon + 1) : 0;
    if (colon) *colon = '\0';
    found->tensor.oper = TF_GraphOperationByName(model->graph, operation);
    found->dtype = (TF_DataType)field_of(tensor, TENSOR_DTYPE).value;
    return found->tensor.oper ? 1 : not_found(model, "operation", operation);
}

int saved_model_run(SavedModel *model, const Endpoint *inputs, TF_Tensor *const *values,
                    int input_count, const Endpoint *outputs, TF_Tensor **results,
                    int output_count) {
    TF_Output from[input_count], to[output_count];
    for (int i = 0; i < input_count; i++) from[i] = inputs[i].tensor;
    for (int i = 0; i < output_count; i++) to[i] = outputs[i].tensor;
    for (int i = 0; i < output_count; i++) results[i] = NULL;
    TF_SessionRun(model->session, NULL, from, values, input_count, to, results, output_count, NULL,
                  0, NULL, model->status);
    return succeeded(model);
}

void saved_model_free(SavedModel *model) {
    if (model->session) TF_DeleteSession(model->session, model->status);
    TF_DeleteBuffer(model->meta_graph);
    TF_DeleteGraph(model->graph);
    TF_DeleteStatus(model->status);
}
