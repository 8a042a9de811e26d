/* Polyhead in C: attention that shows its heads, the multi-head layer, models and what their heads do.
 *
 *   polyhead_context* context;
 *   if (polyhead_context_create(0, &context) != POLYHEAD_OK) puts(polyhead_last_error());
 *   polyhead_attention_options options = {.size = sizeof options, .causal = 1};
 *   polyhead_attention_results results = {.size = sizeof results, .output = &output};
 *   polyhead_attend(context, &q, &k, &v, &options, &results);
 *
 * - Structs that arguments are passed in begin with their size; set it, and zero the rest: 0 and NULL stand for the
 *   default or for "absent". A call that fills an array of structs is told the size of one. So a program that was built
 *   against an older version of this header goes on working. Structs without a size will not change: dtype, tensor,
 *   view, token, message, head, score and estimate.
 * - Functions return a status and leave a message behind; no exception leaves the library, and it never aborts.
 *   Everything is checked before anything is written.
 * - Calls on one context take turns; give each thread that calls at the same time a context of its own.
 * - Every single size of a tensor or a layer is below 2^31; what is larger is refused.
 * - A text is UTF-8 with its size in bytes. A call that fills the caller's memory is told how many elements fit there;
 * it fills no more, and says how many there are in all, so that a second call can have them.
 * - Fields have the names and meanings of polyhead/attention.h, layer.h, text.h, model.h and heads.h, which say it in
 *   full.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#define POLYHEAD_C_PUBLIC __attribute__((visibility("default")))

#ifdef __cplusplus
extern "C" {
#endif

/* ---- Errors ---- */

typedef enum polyhead_status {
  POLYHEAD_OK = 0,
  POLYHEAD_SHAPE,       /* sizes that do not match, or overflow */
  POLYHEAD_DTYPE,       /* an element type the call does not take here */
  POLYHEAD_LAYOUT,      /* strides, alignment, overlapping or missing memory */
  POLYHEAD_VALUE,       /* a number out of range, or an argument that must not be NULL */
  POLYHEAD_UNSUPPORTED, /* a combination that no backend offers */
  POLYHEAD_DEVICE,      /* no such device in this build or machine */
  POLYHEAD_MEMORY,      /* not enough of it */
  POLYHEAD_INPUT,       /* a file that is not what it should be */
  POLYHEAD_IO,          /* the file system refused */
  POLYHEAD_INTERNAL     /* a defect of the library */
} polyhead_status;

/* Why this thread's last failed call failed: "[op] what was expected and found". Valid until the next one. */
POLYHEAD_C_PUBLIC const char* polyhead_last_error(void);
POLYHEAD_C_PUBLIC const char* polyhead_version(void); /* "0.1.0" */
/* The vector instruction set that kernels use, "AVX3"; and why there is no GPU path, or "" if there is one. */
POLYHEAD_C_PUBLIC polyhead_status polyhead_info(const char** target, const char** no_cuda_reason);

/* ---- Tensors ---- */

/* Element types as DLPack has them: code 0 signed integers (32 or 64 bits), 2 floats (16, 32, 64), 4 bfloat16, 6
 * booleans; 1 with 8 bits is taken for booleans too. */
typedef struct polyhead_dtype {
  uint8_t code, bits;
  uint16_t lanes; /* 1 */
} polyhead_dtype;

/* A view of memory, with the layout of DLPack's DLTensor: a pointer to one can be passed for the other. */
typedef struct polyhead_tensor {
  void* data;
  struct {
    int32_t type; /* 1 the host, 2 CUDA, 3 the host's memory pinned by CUDA, 13 memory managed by CUDA */
    int32_t index;
  } device;
  int32_t rank; /* up to 6 */
  polyhead_dtype dtype;
  int64_t* shape;
  int64_t* strides; /* in elements; NULL: row-major */
  uint64_t byte_offset;
} polyhead_tensor;

/* A tensor with room for its shape; filled in by the library. Not to be copied: `tensor` points into it. */
typedef struct polyhead_view {
  polyhead_tensor tensor;
  int64_t shape[6], strides[6];
} polyhead_view;

/* ---- Contexts ---- */

typedef struct polyhead_context polyhead_context;

/* The CPU with so many threads; 0: one per processor that this process may use. No thread starts before the first call
 * that needs it, and none is running between calls. */
POLYHEAD_C_PUBLIC polyhead_status polyhead_context_create(int threads, polyhead_context** context);
/* A GPU, with all work in the caller's stream: a cudaStream_t, NULL for the default one. It must outlive the context
 * and whatever was allocated there. Calls return before their work is done. Once a call was made, the same call can be
 * captured in a CUDA graph. */
POLYHEAD_C_PUBLIC polyhead_status polyhead_context_create_cuda(int index, void* stream, polyhead_context** context);
POLYHEAD_C_PUBLIC void polyhead_context_free(polyhead_context* context); /* NULL is allowed, here and below */
POLYHEAD_C_PUBLIC int polyhead_context_threads(const polyhead_context* context);
/* What a GPU may round for speed, from now on; on a CPU BF16 alone rounds something, the operands of f32 products, if
 * it has AVX512-BF16. F32, the default: nothing. TF32: operands of f32
 * matrix products and attention. BF16: that, f32 attention to bf16, and the matrices and blocks of models. F16:
 * products as TF32, and models as BF16, but not for gradients. A model's matrices are rounded when it is loaded. */
typedef enum polyhead_precision {
  POLYHEAD_PRECISION_F32 = 0,
  POLYHEAD_PRECISION_TF32,
  POLYHEAD_PRECISION_BF16,
  POLYHEAD_PRECISION_F16
} polyhead_precision;
POLYHEAD_C_PUBLIC polyhead_status polyhead_context_set_precision(polyhead_context* context, int precision);
/* Waits until all calls are done, and reports what they found in the values of tensors on a GPU. */
POLYHEAD_C_PUBLIC polyhead_status polyhead_context_synchronise(polyhead_context* context);
/* Returns memory that was kept for the next call to the system. */
POLYHEAD_C_PUBLIC polyhead_status polyhead_context_release_memory(polyhead_context* context);

/* ---- Attention: q [B,H,T,D], k [B,G,S,D], v [B,G,S,E] -> output [B,H,T,E] ---- */

#define POLYHEAD_UNLIMITED INT64_MAX

typedef enum polyhead_align { POLYHEAD_UNSET = 0, POLYHEAD_TOP_LEFT, POLYHEAD_BOTTOM_RIGHT } polyhead_align;

typedef struct polyhead_window {
  size_t size;
  int64_t left, right, always_first;
} polyhead_window;

/* Where a call that is a part of a larger one begins in it, for dropout to be the whole's; each below 2^32. */
typedef struct polyhead_origin {
  size_t size;
  int64_t sequence, head, row, key;
} polyhead_origin;

typedef struct polyhead_attention_options {
  size_t size;
  const double* scale; /* NULL: 1/sqrt(D) */
  double softcap;
  int32_t align; /* polyhead_align */
  int32_t causal;
  const int64_t* first_position;
  const polyhead_tensor* first_positions; /* i32 or i64 [B] */
  const polyhead_window* window;
  const polyhead_tensor* keep;  /* bool, broadcastable to [B,H,T,S]: true = may attend */
  const polyhead_tensor* bias;  /* float, broadcastable to [B,H,T,S] */
  const polyhead_tensor* alibi; /* [H] or [B,H] */
  const polyhead_tensor *key_lengths, *key_start, *query_lengths; /* i32 or i64 [B] */
  const polyhead_tensor *cu_q, *cu_k;                             /* i32 or i64 [N+1] */
  const polyhead_tensor* sink_logit;                              /* [H] */
  const polyhead_tensor* gates;                                   /* [H] or [B,H] */
  double dropout;
  uint64_t dropout_seed;
  const polyhead_origin* dropout_origin; /* NULL: 0 of each */
} polyhead_attention_options;

typedef enum polyhead_logit_stage {
  POLYHEAD_NO_LOGITS = 0,
  POLYHEAD_SCALED,
  POLYHEAD_CAPPED,
  POLYHEAD_BIASED
} polyhead_logit_stage;

/* The fields of statistics, in this order: polyhead::Statistic. All but max_logit are sums over rows. */
#define POLYHEAD_LIGHT_STATISTICS 14
#define POLYHEAD_FULL_STATISTICS 25
POLYHEAD_C_PUBLIC const char* polyhead_statistic_name(int32_t statistic); /* "entropy"; NULL beyond the last */

/* Memory of the caller for what is wanted; what is NULL is not computed. */
typedef struct polyhead_attention_results {
  size_t size;
  const polyhead_tensor* output;              /* [B,H,T,E]; required */
  const polyhead_tensor* lse;                 /* [B,H,T] */
  const polyhead_tensor* weights;             /* [B,heads,rows,S], in the type of q or f32 */
  const polyhead_tensor* logits;              /* f32 (f64 for f64), shaped like weights */
  const polyhead_tensor* statistics;          /* [B,H,n], the first n of POLYHEAD_FULL_STATISTICS */
  const polyhead_tensor* row_statistics;      /* [B,H,T,..] */
  const int32_t *weight_heads, *weight_rows;  /* of these heads and rows only */
  size_t weight_head_count, weight_row_count; /* 0: all */
  int32_t logit_stage;                        /* polyhead_logit_stage; of logits */
  const polyhead_tensor* marked_keys;         /* an input: bool [B,S] */
  const polyhead_tensor* target_keys;         /* an input: i32 [B,T,4] */
} polyhead_attention_results;

POLYHEAD_C_PUBLIC polyhead_status polyhead_attend(polyhead_context* context, const polyhead_tensor* q,
                                                  const polyhead_tensor* k, const polyhead_tensor* v,
                                                  const polyhead_attention_options* options,
                                                  const polyhead_attention_results* results);

/* Which path the same call would take, and why not a faster one. The text is this thread's, until its next call. */
POLYHEAD_C_PUBLIC polyhead_status polyhead_explain(polyhead_context* context, const polyhead_tensor* q,
                                                   const polyhead_tensor* k, const polyhead_tensor* v,
                                                   const polyhead_attention_options* options,
                                                   const polyhead_attention_results* results, const char** text);

/* What the forward pass with the same arguments gave, or NULL to have it computed again; and the upstream gradients. */
typedef struct polyhead_attention_upstream {
  size_t size;
  const polyhead_tensor *output, *lse;              /* of the forward pass */
  const polyhead_tensor *doutput, *dlse, *dweights; /* doutput is required; dweights [B,H,T,S] */
  int32_t merged; /* not 0: output and lse are those of all shards of the keys, of which k and v are one */
} polyhead_attention_upstream;

typedef struct polyhead_attention_gradients {
  size_t size;
  const polyhead_tensor *dq, *dk, *dv; /* required; shaped like q, k and v */
  const polyhead_tensor *dbias, *dsink_logit, *dgates;
} polyhead_attention_gradients;

POLYHEAD_C_PUBLIC polyhead_status polyhead_attend_backward(polyhead_context* context, const polyhead_tensor* q,
                                                           const polyhead_tensor* k, const polyhead_tensor* v,
                                                           const polyhead_attention_options* options,
                                                           const polyhead_attention_upstream* upstream,
                                                           const polyhead_attention_gradients* gradients);

/* Merges the results of shards of the keys, in their order: of each part output, lse and, if statistics are wanted,
 * row_statistics; into output and what else is there of lse, statistics and row_statistics, all of as many fields. Host
 * memory. See merge_attention in polyhead/attention.h. */
POLYHEAD_C_PUBLIC polyhead_status polyhead_merge_attention(const polyhead_attention_results* parts, size_t count,
                                                           const polyhead_attention_results* merged);

/* ---- Results that the library allocates ---- */

typedef struct polyhead_results polyhead_results;
POLYHEAD_C_PUBLIC void polyhead_results_free(polyhead_results* results);
/* The tensor of that name, valid as long as the results are; an error that lists the names if there is none. */
POLYHEAD_C_PUBLIC polyhead_status polyhead_results_get(const polyhead_results* results, const char* name,
                                                       polyhead_view* view);

/* ---- The multi-head layer: query [B,T,C], key [B,S,key_width], value [B,S,value_width] -> output [B,T,C] ---- */

typedef struct polyhead_layer polyhead_layer;

typedef struct polyhead_layer_shape {
  size_t size;
  int64_t width, heads, kv_heads, head_dim, key_width, value_width; /* from kv_heads on 0 stands for the default */
  int32_t no_bias;
  int32_t qk_norm; /* RMSNorm of every head of q and k, before rotary; f32 or f64 */
} polyhead_layer_shape;

/* Initialised from the seed as torch.nn.MultiheadAttention is, in the memory of the context's device. */
POLYHEAD_C_PUBLIC polyhead_status polyhead_layer_create(polyhead_context* context, const polyhead_layer_shape* shape,
                                                        polyhead_dtype dtype, uint64_t seed, polyhead_layer** layer);
POLYHEAD_C_PUBLIC void polyhead_layer_free(polyhead_layer* layer);
/* A parameter by its name in torch ("in_proj_weight", "out_proj.bias" ...; "q_norm.weight" and "k_norm.weight", which
 * torch's layer does not have), for reading and writing. */
POLYHEAD_C_PUBLIC polyhead_status polyhead_layer_parameter(polyhead_layer* layer, const char* name,
                                                           polyhead_view* view);
/* The names of the parameters that the layer has, by number from 0; NULL beyond the last. */
POLYHEAD_C_PUBLIC const char* polyhead_layer_parameter_name(const polyhead_layer* layer, int32_t number);

/* Rotates pairs of columns of q and k by their positions: polyhead::Rotary. */
typedef struct polyhead_rotary {
  size_t size;
  int64_t dim;                                       /* how many columns are rotated; 0: all */
  double base;                                       /* 0: 10000 */
  int32_t interleaved;                               /* pairs are 2c and 2c + 1, not c and c + dim/2 */
  double scaling_factor, scaling_slow, scaling_fast; /* 0: 1, 1 and 4 */
  int64_t scaling_context;                           /* 0: linear scaling */
  const polyhead_tensor* factors;                    /* f32 [dim/2] or NULL: slow each pair down further */
} polyhead_rotary;

typedef struct polyhead_layer_inputs {
  size_t size;
  const polyhead_tensor *query, *key, *value;  /* key NULL: the query; value NULL: the key */
  const polyhead_attention_options* attention; /* or NULL */
  double output_dropout;
  uint64_t output_dropout_seed;
  double qk_norm_epsilon;                                 /* 0: 1e-6 */
  const polyhead_rotary* rotary;                          /* or NULL */
  const polyhead_tensor *query_positions, *key_positions; /* for rotary: i32 [T] or [B,T]; NULL: 0, 1, 2 ... */
  const polyhead_origin* output_dropout_origin;           /* its sequence and row; NULL: 0 of each */
} polyhead_layer_inputs;

typedef struct polyhead_layer_wants {
  size_t size;
  int32_t training; /* keeps what backward needs, heads and lse among it */
  int32_t weights;
  int32_t statistics; /* 0 none, 1 the light set, 2 the full one */
  int32_t heads;      /* side by side before W_O, [B,T,H*D] */
  int32_t lse, row_statistics, weights_f32;
  int32_t logit_stage;                        /* polyhead_logit_stage; of logits */
  const int32_t *weight_heads, *weight_rows;  /* of these heads and rows only */
  size_t weight_head_count, weight_row_count; /* 0: all */
  const polyhead_tensor* marked_keys;         /* bool [B,S] */
  const polyhead_tensor* target_keys;         /* i32 [B,T,4] */
} polyhead_layer_wants;

/* Results: output, and as wanted heads, lse, weights, logits, statistics, row_statistics. Only in C++ does the layer
 * have packed weights, projections as results, results in the caller's memory, and upstream gradients of lse and
 * weights. */
POLYHEAD_C_PUBLIC polyhead_status polyhead_layer_forward(polyhead_context* context, const polyhead_layer* layer,
                                                         const polyhead_layer_inputs* inputs,
                                                         const polyhead_layer_wants* wants, polyhead_results** results);
/* `forward` is what forward with `training` gave for the same inputs. Results: dquery, dkey and dvalue where those were
 * given, the gradients of all parameters by their names, and dbias, dsink_logit and dgates where the options had them.
 */
POLYHEAD_C_PUBLIC polyhead_status polyhead_layer_backward(polyhead_context* context, const polyhead_layer* layer,
                                                          const polyhead_layer_inputs* inputs,
                                                          const polyhead_results* forward,
                                                          const polyhead_tensor* doutput, polyhead_results** gradients);

/* ---- Text ---- */

typedef struct polyhead_tokenizer polyhead_tokenizer;

/* From the folder or the GGUF file of a model, or the name of one that `polyhead get` has fetched. */
POLYHEAD_C_PUBLIC polyhead_status polyhead_tokenizer_load(const char* path, polyhead_tokenizer** tokenizer);
POLYHEAD_C_PUBLIC void polyhead_tokenizer_free(polyhead_tokenizer* tokenizer);
/* The largest token plus one. */
POLYHEAD_C_PUBLIC polyhead_status polyhead_tokenizer_size(const polyhead_tokenizer* tokenizer, int64_t* size);

/* A token and its place in the text, in bytes and in characters. */
typedef struct polyhead_token {
  int32_t id;
  uint32_t begin, end, first_char, last_char;
} polyhead_token;

/* `special`: with the tokens that the tokenizer puts around a text. */
POLYHEAD_C_PUBLIC polyhead_status polyhead_encode(const polyhead_tokenizer* tokenizer, const char* text, size_t size,
                                                  int32_t special, polyhead_token* tokens, size_t capacity,
                                                  size_t* count);
/* The text of tokens, without a 0 at its end; special tokens are left out unless `special` is set. `places` [count], or
 * NULL: where each token lies in it. */
POLYHEAD_C_PUBLIC polyhead_status polyhead_decode(const polyhead_tokenizer* tokenizer, const int32_t* tokens,
                                                  size_t count, int32_t special, char* text, size_t capacity,
                                                  size_t* size, polyhead_token* places);
/* One token by itself, special or not. */
POLYHEAD_C_PUBLIC polyhead_status polyhead_token_text(const polyhead_tokenizer* tokenizer, int32_t token, char* text,
                                                      size_t capacity, size_t* size);

typedef struct polyhead_message {
  const char* role; /* "system", "user" or "assistant" */
  const char* content;
  size_t content_size;
} polyhead_message;
/* A conversation in the form of the model's chat template, to be encoded without special tokens; with `answer`, up to
 * where the model's answer begins. */
POLYHEAD_C_PUBLIC polyhead_status polyhead_chat(const polyhead_tokenizer* tokenizer, const polyhead_message* messages,
                                                size_t count, int32_t answer, char* text, size_t capacity,
                                                size_t* size);

typedef enum polyhead_token_kind {
  POLYHEAD_BEGINNING = 0, /* before every text */
  POLYHEAD_ENDING,        /* after it */
  POLYHEAD_ENDS,          /* after which the model has nothing more to say */
  POLYHEAD_SPECIAL,       /* left out of what is decoded */
  POLYHEAD_MARKS          /* punctuation, and the end of a line */
} polyhead_token_kind;
POLYHEAD_C_PUBLIC polyhead_status polyhead_tokens_of_kind(const polyhead_tokenizer* tokenizer, int32_t kind,
                                                          int32_t* tokens, size_t capacity, size_t* count);

/* ---- Models ---- */

typedef struct polyhead_model polyhead_model;

typedef struct polyhead_head {
  int64_t layer, head; /* both counted from 0 */
} polyhead_head;

/* A folder, a GGUF file, or the name of a model that `polyhead get` has fetched, into the memory of the context's
 * device. */
POLYHEAD_C_PUBLIC polyhead_status polyhead_model_load(polyhead_context* context, const char* path,
                                                      polyhead_model** model);
POLYHEAD_C_PUBLIC polyhead_status polyhead_model_save(const polyhead_model* model, const char* folder);
POLYHEAD_C_PUBLIC void polyhead_model_free(polyhead_model* model);
/* The model's own; an error if it has none. To be freed like one that was loaded. */
POLYHEAD_C_PUBLIC polyhead_status polyhead_model_tokenizer(const polyhead_model* model, polyhead_tokenizer** tokenizer);

/* Texts as the model reads them, one after the other in rows of up to `length` tokens (0: of its context). Results:
 * tokens and targets i32 [B,T], lengths i32 [B], for every call that takes them. */
POLYHEAD_C_PUBLIC polyhead_status polyhead_model_examples(const polyhead_model* model, const char* const* texts,
                                                          const size_t* sizes, size_t text_count, int64_t length,
                                                          polyhead_results** results);

typedef struct polyhead_model_info {
  size_t size;
  int32_t is_classifier, is_encoder;
  int64_t vocabulary, context_length, parameter_count, head_count;
} polyhead_model_info;
POLYHEAD_C_PUBLIC polyhead_status polyhead_model_describe(const polyhead_model* model, polyhead_model_info* info);
/* Layer by layer, into memory for head_count of them. */
POLYHEAD_C_PUBLIC polyhead_status polyhead_model_heads(const polyhead_model* model, polyhead_head* heads);

/* tokens i32 [B,T]; lengths i32 [B] or NULL; heads whose output is made 0. Results: logits, [B,T,V], [B,classes] of a
 * classifier, or [B,T,C] of an encoder. */
POLYHEAD_C_PUBLIC polyhead_status polyhead_model_forward(polyhead_context* context, const polyhead_model* model,
                                                         const polyhead_tensor* tokens, const polyhead_tensor* lengths,
                                                         const polyhead_head* knocked_out, size_t knocked_out_count,
                                                         polyhead_results** results);

/* Of an encoder, the mean of its output over the tokens of each sequence, for the same arguments. Results: embeddings,
 * f32 [B,C]. */
POLYHEAD_C_PUBLIC polyhead_status polyhead_model_embed(polyhead_context* context, const polyhead_model* model,
                                                       const polyhead_tensor* tokens, const polyhead_tensor* lengths,
                                                       const polyhead_head* knocked_out, size_t knocked_out_count,
                                                       polyhead_results** results);

/* What every head attends to, for the same arguments. Results: "0", "1" ..., the weights of each layer that has heads,
 * [B,H,T,T]. */
POLYHEAD_C_PUBLIC polyhead_status polyhead_model_weights(polyhead_context* context, const polyhead_model* model,
                                                         const polyhead_tensor* tokens, const polyhead_tensor* lengths,
                                                         const polyhead_head* knocked_out, size_t knocked_out_count,
                                                         polyhead_results** results);

/* The same three of texts, each of which must fit into the context; text_sizes NULL: each ends with a 0. Shorter ones
 * are padded on the right: polyhead_model_examples() gives their tokens and lengths. */
POLYHEAD_C_PUBLIC polyhead_status polyhead_forward_texts(polyhead_context* context, const polyhead_model* model,
                                                         const char* const* texts, const size_t* text_sizes,
                                                         size_t text_count, const polyhead_head* knocked_out,
                                                         size_t knocked_out_count, polyhead_results** results);
POLYHEAD_C_PUBLIC polyhead_status polyhead_embed_texts(polyhead_context* context, const polyhead_model* model,
                                                       const char* const* texts, const size_t* text_sizes,
                                                       size_t text_count, const polyhead_head* knocked_out,
                                                       size_t knocked_out_count, polyhead_results** results);
POLYHEAD_C_PUBLIC polyhead_status polyhead_weights_of_texts(polyhead_context* context, const polyhead_model* model,
                                                            const char* const* texts, const size_t* text_sizes,
                                                            size_t text_count, const polyhead_head* knocked_out,
                                                            size_t knocked_out_count, polyhead_results** results);

typedef struct polyhead_sampling {
  size_t size;
  double temperature; /* 0: always the likeliest token */
  uint64_t seed;
  int64_t top_k;       /* 0: all */
  double top_p;        /* 0: all */
  const int32_t* stop; /* tokens that end a sequence */
  size_t stop_count;
  const char* const* stop_texts; /* where text is made: texts that end a sequence; each ends with a 0 */
  size_t stop_text_count;
} polyhead_sampling;

/* `count` tokens after each prompt, row by row into tokens [prompts,count]; -1 after the end of a sequence. Prompt p is
 * the next lengths[p] of `prompts`. sampling NULL: always the likeliest token. */
POLYHEAD_C_PUBLIC polyhead_status polyhead_model_generate(polyhead_context* context, const polyhead_model* model,
                                                          const int32_t* prompts, const int64_t* lengths,
                                                          size_t prompt_count, int64_t count,
                                                          const polyhead_sampling* sampling, int32_t* tokens);

/* What a step adds to a sequence. */
typedef struct polyhead_addition {
  size_t size, prompt;
  int32_t token;    /* -1 if only text that has waited is left to say */
  int32_t last;     /* the sequence has ended */
  const char* text; /* whole characters, with a 0 behind them; valid until the next step */
  size_t text_size;
} polyhead_addition;

/* The same, step by step. `text`: additions have text, by the model's tokenizer. The context must outlive it. */
typedef struct polyhead_generation polyhead_generation;
POLYHEAD_C_PUBLIC polyhead_status polyhead_generation_create(polyhead_context* context, const polyhead_model* model,
                                                             const int32_t* prompts, const int64_t* lengths,
                                                             size_t prompt_count, int64_t count,
                                                             const polyhead_sampling* sampling, int32_t text,
                                                             polyhead_generation** generation);
/* One for each sequence that goes on, into memory for prompt_count of them, each of addition_size bytes; none once all
 * have ended. */
POLYHEAD_C_PUBLIC polyhead_status polyhead_generation_next(polyhead_generation* generation,
                                                           polyhead_addition* additions, size_t addition_size,
                                                           size_t* count);
POLYHEAD_C_PUBLIC void polyhead_generation_free(polyhead_generation* generation);

/* Continues a text by up to `count` tokens, ending before the model's end tokens too. The function is given every
 * addition as it is made, and `user`; what it returns says whether to go on. */
typedef int32_t (*polyhead_on_addition)(const polyhead_addition* addition, void* user);
POLYHEAD_C_PUBLIC polyhead_status polyhead_generate_text(polyhead_context* context, const polyhead_model* model,
                                                         const char* prompt, size_t size, int64_t count,
                                                         const polyhead_sampling* sampling,
                                                         polyhead_on_addition on_addition, void* user);
/* The same of several prompts at once; prompt_sizes NULL: each ends with a 0. */
POLYHEAD_C_PUBLIC polyhead_status polyhead_generate_texts(polyhead_context* context, const polyhead_model* model,
                                                          const char* const* prompts, const size_t* prompt_sizes,
                                                          size_t prompt_count, int64_t count,
                                                          const polyhead_sampling* sampling,
                                                          polyhead_on_addition on_addition, void* user);
/* The same for the answer to a conversation. */
POLYHEAD_C_PUBLIC polyhead_status polyhead_answer(polyhead_context* context, const polyhead_model* model,
                                                  const polyhead_message* messages, size_t message_count, int64_t count,
                                                  const polyhead_sampling* sampling, polyhead_on_addition on_addition,
                                                  void* user);

/* ---- Heads ---- */

/* In an array all have the size of the first. Tokens with their targets, or texts, which polyhead_model_examples()
 * would make tokens of. */
typedef struct polyhead_examples {
  size_t size;
  const polyhead_tensor *tokens, *targets, *lengths; /* i32 [B,T]; i32 [B,T] or [B]; i32 [B] or NULL; on the host */
  const char* const* texts;
  const size_t* text_sizes; /* NULL: each text ends with a 0 */
  size_t text_count;
} polyhead_examples;

typedef struct polyhead_score {
  double loss, accuracy; /* over all targets that count: cross entropy in nats, and the share that is right */
} polyhead_score;
POLYHEAD_C_PUBLIC polyhead_status polyhead_model_score(polyhead_context* context, const polyhead_model* model,
                                                       const polyhead_examples* batches, size_t batch_count,
                                                       const polyhead_head* knocked_out, size_t knocked_out_count,
                                                       polyhead_score* score);

typedef struct polyhead_surveyed_head {
  polyhead_head id;
  char role[32]; /* "induction"; empty if no detector beats its control */
  double role_score;
} polyhead_surveyed_head;
/* Every head on tokens i32 [B,T], into memory for head_count of them, each of head_size bytes; and its statistics over
 * all rows, into sums [head_count,sum_count], or NULL: the first sum_count of POLYHEAD_FULL_STATISTICS. */
POLYHEAD_C_PUBLIC polyhead_status polyhead_survey_heads(polyhead_context* context, const polyhead_model* model,
                                                        const polyhead_tensor* tokens, const polyhead_tensor* lengths,
                                                        const int32_t* separators, size_t separator_count,
                                                        uint64_t seed, polyhead_surveyed_head* heads, size_t head_size,
                                                        double* sums, size_t sum_count);
/* On texts; text_sizes NULL: each ends with a 0. separator_count 0: punctuation. Roles do not depend on these texts. */
POLYHEAD_C_PUBLIC polyhead_status polyhead_survey_texts(polyhead_context* context, const polyhead_model* model,
                                                        const char* const* texts, const size_t* text_sizes,
                                                        size_t text_count, const int32_t* separators,
                                                        size_t separator_count, uint64_t seed,
                                                        polyhead_surveyed_head* heads, size_t head_size, double* sums,
                                                        size_t sum_count);

typedef struct polyhead_patching {
  size_t size;
  int32_t answer, instead; /* the tokens whose logits are compared */
  double clean, corrupted; /* the difference of their logits after each text */
} polyhead_patching;
typedef struct polyhead_patched_head {
  polyhead_head id;
  double difference, restored;
} polyhead_patched_head;
/* Which heads carry the difference between two texts of `count` tokens each. answer and instead below 0: the likeliest
 * tokens after either text. Into memory for head_count heads, each of head_size bytes. */
POLYHEAD_C_PUBLIC polyhead_status polyhead_patch_heads(polyhead_context* context, const polyhead_model* model,
                                                       const int32_t* clean, const int32_t* corrupted, size_t count,
                                                       int32_t answer, int32_t instead, polyhead_patching* patching,
                                                       polyhead_patched_head* heads, size_t head_size);
/* Of texts that end with a 0; answer and instead are texts of one token, or NULL. */
POLYHEAD_C_PUBLIC polyhead_status polyhead_patch_texts(polyhead_context* context, const polyhead_model* model,
                                                       const char* clean, const char* corrupted, const char* answer,
                                                       const char* instead, polyhead_patching* patching,
                                                       polyhead_patched_head* heads, size_t head_size);

typedef struct polyhead_estimate {
  double mean, low, high; /* with its 95 % interval */
} polyhead_estimate;
typedef struct polyhead_head_importance {
  polyhead_head id;
  double gradient, normalised;
  polyhead_estimate zero, mean;
  double accuracy_loss;
  polyhead_estimate logit;
} polyhead_head_importance;
/* Into memory for head_count of them, each of head_size bytes. */
POLYHEAD_C_PUBLIC polyhead_status polyhead_importance(polyhead_context* context, const polyhead_model* model,
                                                      const polyhead_examples* batches, size_t batch_count,
                                                      polyhead_head_importance* heads, size_t head_size);

typedef enum polyhead_prune_order {
  POLYHEAD_ITERATIVE = 0,
  POLYHEAD_ONE_SHOT,
  POLYHEAD_RANDOM,
  POLYHEAD_DAMAGE
} polyhead_prune_order;

typedef struct polyhead_prune_step {
  polyhead_head removed;
  polyhead_score without; /* this one and all before it */
} polyhead_prune_step;
/* Into memory for head_count steps, each of step_size bytes; step_count and within_budget say how many were taken, and
 * how many may be. */
POLYHEAD_C_PUBLIC polyhead_status polyhead_prune(polyhead_context* context, const polyhead_model* model,
                                                 const polyhead_examples* ranking, size_t ranking_count,
                                                 const polyhead_examples* judging, size_t judging_count, double budget,
                                                 int32_t order, uint64_t seed, polyhead_score* whole,
                                                 polyhead_prune_step* steps, size_t step_size, size_t* step_count,
                                                 size_t* within_budget);
/* The model without these heads, in smaller matrices. */
POLYHEAD_C_PUBLIC polyhead_status polyhead_without_heads(const polyhead_model* model, const polyhead_head* heads,
                                                         size_t head_count, polyhead_model** smaller);

#ifdef __cplusplus
} /* extern "C" */
#endif
