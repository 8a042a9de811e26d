#include "core/suggest.h"
#include "train/tasks.h"

namespace polyhead::train {
namespace {

struct Entry {
  TaskSummary about;
  std::unique_ptr<Task> (*make)(const TaskSummary&, const TaskOptions&);
};

const std::vector<Entry>& entries() {
  static const std::vector<Entry> all = {
      {{"copy", "say a random string again after a separator: heads that look back a fixed distance"}, make_copy},
      {{"repeat", "a random segment of random length, over and over: previous-token and induction heads"}, make_repeat},
      {{"repeat-fixed", "the same with one length: a control, since looking back a fixed distance is enough"},
       make_repeat_fixed},
      {{"recall", "key-value pairs, then the keys in another order: heads that match keys"}, make_recall},
      {{"classify", "three values, each beside a marker on a side of its own: one positional head for each"},
       make_classify},
      {{"dyck", "nested brackets of several kinds: heads that count the depth and match brackets"}, make_dyck},
      {{"grammar", "English sentences: heads from verb to subject and from pronoun to referent"}, make_grammar},
      {{"text", "the bytes of a file, its last tenth for validation"}, make_text},
  };
  return all;
}

}  // namespace

std::unique_ptr<Task> make_task(const TaskOptions& options) {
  std::vector<std::string> names;
  std::string list;
  for (const auto& [about, make] : entries()) {
    if (about.name == options.name) return make(about, options);
    names.push_back(about.name);
    list += (list.empty() ? "" : ", ") + about.name;
  }
  throw Error(ErrorCode::value, "task",
              "name: expected one of " + list + ", found '" + options.name + "'" + did_you_mean(options.name, names));
}

std::vector<TaskSummary> task_list() {
  std::vector<TaskSummary> list;
  for (const Entry& entry : entries()) list.push_back(entry.about);
  return list;
}

}  // namespace polyhead::train
