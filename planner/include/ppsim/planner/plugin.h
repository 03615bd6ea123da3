#ifndef PPSIM_PLANNER_PLUGIN_H
#define PPSIM_PLANNER_PLUGIN_H

/* What a library offers to `ppsim --plugin LIBRARY.so`: schedules and cost models of its own. It is C, so
 * that a library of any language and any compiler fits the program. A schedule, or a table of costs, comes as
 * the text of a file and is checked like one: docs/adding-a-schedule.md has an example. */

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

#define PPSIM_PLUGIN_VERSION 1

/* What is asked for by --ranks, --microbatches, --chunks, --slices and --set. */
typedef struct ppsim_parameters {
  int ranks;
  int microbatches;
  int chunks; /* 0: none given */
  int slices;
  size_t settings; /* of --set */
  const char* const* keys;
  const char* const* values;
} ppsim_parameters;

typedef struct ppsim_schedule {
  const char* name; /* of letters, digits and dashes */
  const char* summary;
  /* The schedule as the text of a file: PyTorch's CSV or native JSON. NULL: it is refused, and `*refusal`
   * says why. Both are freed by `release`. */
  char* (*generate)(const ppsim_parameters* parameters, char** refusal);
} ppsim_schedule;

/* The pipeline that costs are asked for, and what `--costs NAME:key=value,...` says. */
typedef struct ppsim_pipeline {
  int ranks;
  int stages;
  int microbatches;
  int slices;
  const int* rank_of_stage;
  size_t settings;
  const char* const* keys;
  const char* const* values;
} ppsim_pipeline;

typedef struct ppsim_cost_model {
  const char* name; /* of letters, digits and dashes */
  const char* summary;
  /* The costs and sizes as the text of a file of `--costs`. NULL: they are refused, and `*refusal` says why.
   * Both are freed by `release`. */
  char* (*tables)(const ppsim_pipeline* pipeline, char** refusal);
} ppsim_cost_model;

typedef struct ppsim_plugin_v1 {
  int version; /* PPSIM_PLUGIN_VERSION */
  size_t count;
  const ppsim_schedule* schedules;
  void (*release)(char* text);
  size_t cost_model_count;
  const ppsim_cost_model* cost_models;
} ppsim_plugin_v1;

/* The function that the library has. What it returns stays as long as the library is loaded. */
const ppsim_plugin_v1* ppsim_plugin(void);

#ifdef __cplusplus
}
#endif

#endif
