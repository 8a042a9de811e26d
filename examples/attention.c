/* The C ABI in one page: causal attention of two heads over four tokens, and what each head does. */
#include <polyhead/polyhead_c.h>
#include <stdio.h>
#include <stdlib.h>

enum { kHeads = 2, kTokens = 4, kDim = 3 };

static void check(polyhead_status status) {
  if (status == POLYHEAD_OK) return;
  printf("%s\n", polyhead_last_error());
  exit(1);
}

int main(void) {
  /* Head 0 finds every key alike. In head 1 each token asks for itself, and token 3 for token 0 as well. */
  static float q[kHeads][kTokens][kDim], k[kHeads][kTokens][kDim], output[kHeads][kTokens][kDim];
  for (int i = 0; i < kTokens; ++i) {
    for (int d = 0; d < kDim; ++d) k[0][i][d] = q[0][i][d] = 1;
    k[1][i][i % kDim] = q[1][i][i % kDim] = 10;
  }
  float statistics[kHeads][POLYHEAD_LIGHT_STATISTICS];

  const polyhead_dtype f32 = {.code = 2, .bits = 32, .lanes = 1};
  int64_t shape[] = {1, kHeads, kTokens, kDim}, statistics_shape[] = {1, kHeads, POLYHEAD_LIGHT_STATISTICS};
  const polyhead_tensor queries = {.data = q, .device = {1, 0}, .rank = 4, .dtype = f32, .shape = shape};
  polyhead_tensor keys = queries, results = queries, numbers = queries;
  keys.data = k;
  results.data = output;
  numbers.data = statistics;
  numbers.rank = 3;
  numbers.shape = statistics_shape;

  polyhead_context* context;
  check(polyhead_context_create(0, &context));
  polyhead_attention_options options = {.size = sizeof options, .causal = 1};
  polyhead_attention_results wanted = {.size = sizeof wanted, .output = &results, .statistics = &numbers};
  check(polyhead_attend(context, &queries, &keys, &keys, &options, &wanted));

  for (int head = 0; head < kHeads; ++head) {
    printf("head %d:", head);
    for (int field = 0; field < POLYHEAD_LIGHT_STATISTICS; ++field) {
      printf(" %s %.3f", polyhead_statistic_name(field), (double)statistics[head][field]);
    }
    printf("\n");
  }

  keys.rank = 3; /* the error says what is wrong, and nothing is written */
  if (polyhead_attend(context, &queries, &keys, &keys, &options, &wanted) != POLYHEAD_OK) {
    printf("error: %s\n", polyhead_last_error());
  }
  polyhead_context_free(context);
  return 0;
}
