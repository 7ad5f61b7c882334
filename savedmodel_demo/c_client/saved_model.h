/* A SavedModel by TensorFlow's C API alone: loading it, finding the tensors of a signature, running.
 *
 * Functions that can fail return 1 if they did not; else the reason is TF_Message(model->status).
 */
#ifndef SAVED_MODEL_H
#define SAVED_MODEL_H

#include <tensorflow/c/c_api.h>

typedef struct {
    TF_Graph *graph;
    TF_Session *session;
    TF_Buffer *meta_graph; /* a MetaGraphDef, which knows the signatures */
    TF_Status *status;     /* of what was called last */
} SavedModel;

/* Numbers of the fields of SignatureDef. */
typedef enum { INPUTS = 1, OUTPUTS = 2 } Side;

typedef struct {
    TF_Output tensor;
    TF_DataType dtype;
} Endpoint;

int saved_model_load(SavedModel *model, const char *directory);

/* The input or output that a signature knows by this name. */
int saved_model_find(SavedModel *model, const char *signature, Side side, const char *name,
                     Endpoint *found);

/* Runs the graph once; the caller deletes what comes out. */
int saved_model_run(SavedModel *model, const Endpoint *inputs, TF_Tensor *const *values,
                    int input_count, const Endpoint *outputs, TF_Tensor **results, int output_count);

void saved_model_free(SavedModel *model);

#endif
