// One maker per task, for make_task; make_task.cpp says what each task is about.
#pragma once

#include "train/task.h"

namespace polyhead::train {

std::unique_ptr<Task> make_copy(const TaskSummary& about, const TaskOptions& options);
std::unique_ptr<Task> make_repeat(const TaskSummary& about, const TaskOptions& options);
std::unique_ptr<Task> make_repeat_fixed(const TaskSummary& about, const TaskOptions& options);
std::unique_ptr<Task> make_recall(const TaskSummary& about, const TaskOptions& options);
std::unique_ptr<Task> make_classify(const TaskSummary& about, const TaskOptions& options);
std::unique_ptr<Task> make_dyck(const TaskSummary& about, const TaskOptions& options);
std::unique_ptr<Task> make_grammar(const TaskSummary& about, const TaskOptions& options);
std::unique_ptr<Task> make_text(const TaskSummary& about, const TaskOptions& options);

}  // namespace polyhead::train
