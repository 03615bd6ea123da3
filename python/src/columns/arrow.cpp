// Tables by the Arrow C data interface (https://arrow.apache.org/docs/format/CDataInterface.html).

#include "arrow.hpp"

#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <array>
#include <memory>

// The names and fields of the interface are Arrow's own.
struct ArrowSchema {
  const char* format;
  const char* name;
  const char* metadata;
  std::int64_t flags;
  std::int64_t n_children;
  ArrowSchema** children;
  ArrowSchema* dictionary;
  void (*release)(ArrowSchema*);
  void* private_data;
};
struct ArrowArray {
  std::int64_t length;
  std::int64_t null_count;
  std::int64_t offset;
  std::int64_t n_buffers;
  std::int64_t n_children;
  const void** buffers;
  ArrowArray** children;
  ArrowArray* dictionary;
  void (*release)(ArrowArray*);
  void* private_data;
};
struct ArrowArrayStream {
  int (*get_schema)(ArrowArrayStream*, ArrowSchema* out);
  int (*get_next)(ArrowArrayStream*, ArrowArray* out);
  const char* (*get_last_error)(ArrowArrayStream*);
  void (*release)(ArrowArrayStream*);
  void* private_data;
};

namespace ppsim::python {

struct ArrowTable::Data {
  std::int64_t rows = 0;
  std::vector<ArrowColumn> columns;
};

namespace {

using Shared = std::shared_ptr<const ArrowTable::Data>;

const char* format_of(const ArrowColumn& column) {
  constexpr std::array<const char*, 3> kFormats = {"i", "l", "u"};  // in the order of the variant
  return kFormats[column.values.index()];
}

/// The storage that a schema or an array of the interface points into. T: ArrowSchema or ArrowArray.
template <class T>
struct Held {
  Shared data;
  std::vector<T> items;
  std::vector<T*> children;
  std::array<const void*, 3> buffers = {};
};

/// Ends what is not moved away; a child's own release says that it is.
template <class T>
void release_item(T* item) {
  for (std::int64_t i = 0; i < item->n_children; ++i) {
    if (item->children[i]->release != nullptr) item->children[i]->release(item->children[i]);
  }
  delete static_cast<Held<T>*>(item->private_data);
  item->release = nullptr;
}

void fill_schema(ArrowSchema& schema, const Shared& data) {
  auto held = std::make_unique<Held<ArrowSchema>>(Held<ArrowSchema>{.data = data});
  held->items.resize(data->columns.size());
  for (std::size_t i = 0; i < held->items.size(); ++i) {
    const ArrowColumn& column = data->columns[i];
    auto* const own = new Held<ArrowSchema>{.data = data};  // for a child that is moved away
    held->items[i] = {format_of(column), column.name.c_str(),        nullptr, 0, 0, nullptr,
                      nullptr,           &release_item<ArrowSchema>, own};
    held->children.push_back(&held->items[i]);
  }
  ArrowSchema** const children = held->children.data();
  const auto count = static_cast<std::int64_t>(held->children.size());
  schema = {"+s", "", nullptr, 0, count, children, nullptr, &release_item<ArrowSchema>, held.release()};
}

/// Buffers of one column: validity, which there is none of, then values, or ends and text.
struct Buffers {
  std::array<const void*, 3> pointers = {};
  std::int64_t count = 0;
};
Buffers buffers_of(const ArrowColumn& column) {
  if (const auto* text = std::get_if<TextColumn>(&column.values))
    return {{nullptr, text->ends.data(), text->text.data()}, 3};
  if (const auto* narrow = std::get_if<std::vector<std::int32_t>>(&column.values))
    return {{nullptr, narrow->data(), nullptr}, 2};
  return {{nullptr, std::get<std::vector<std::int64_t>>(column.values).data(), nullptr}, 2};
}

void fill_array(ArrowArray& array, const Shared& data) {
  auto held = std::make_unique<Held<ArrowArray>>(Held<ArrowArray>{.data = data});
  held->items.resize(data->columns.size());
  for (std::size_t i = 0; i < held->items.size(); ++i) {
    const Buffers buffers = buffers_of(data->columns[i]);
    auto* const own = new Held<ArrowArray>{.data = data, .buffers = buffers.pointers};
    held->items[i] = {
        data->rows, 0, 0, buffers.count, 0, own->buffers.data(), nullptr, nullptr, &release_item<ArrowArray>,
        own};
    held->children.push_back(&held->items[i]);
  }
  ArrowArray** const children = held->children.data();
  const void** const buffers = held->buffers.data();
  const auto count = static_cast<std::int64_t>(held->children.size());
  array = {data->rows, 0, 0, 1, count, buffers, children, nullptr, &release_item<ArrowArray>, held.release()};
}

/// One batch, and then the end.
struct Batches {
  Shared data;
  bool done = false;
};

int next_schema(ArrowArrayStream* stream, ArrowSchema* out) {
  fill_schema(*out, static_cast<Batches*>(stream->private_data)->data);
  return 0;
}

int next_array(ArrowArrayStream* stream, ArrowArray* out) {
  auto& batches = *static_cast<Batches*>(stream->private_data);
  *out = {};
  if (!std::exchange(batches.done, true)) fill_array(*out, batches.data);
  return 0;
}

const char* no_error(ArrowArrayStream*) { return nullptr; }

void release_stream(ArrowArrayStream* stream) {
  delete static_cast<Batches*>(stream->private_data);
  stream->release = nullptr;
}

/// Whoever takes what a capsule holds leaves it released.
template <class T>
nb::capsule capsule_of(std::unique_ptr<T> item, const char* name) {
  return nb::capsule(item.release(), name, [](void* pointer) noexcept {
    auto* const held = static_cast<T*>(pointer);
    if (held->release != nullptr) held->release(held);
    delete held;
  });
}

}  // namespace

void TextColumn::add(std::string_view item) {
  text += item;
  ends.push_back(static_cast<std::int32_t>(text.size()));
}

ArrowTable::ArrowTable(std::int64_t rows, std::vector<ArrowColumn> columns)
    : data_(std::make_shared<const Data>(Data{rows, std::move(columns)})) {}

std::int64_t ArrowTable::rows() const { return data_->rows; }

std::vector<std::string> ArrowTable::names() const {
  std::vector<std::string> names;
  for (const ArrowColumn& column : data_->columns) names.push_back(column.name);
  return names;
}

nb::capsule ArrowTable::schema() const {
  auto schema = std::make_unique<ArrowSchema>();
  fill_schema(*schema, data_);
  return capsule_of(std::move(schema), "arrow_schema");
}

nb::capsule ArrowTable::array() const {
  auto array = std::make_unique<ArrowArray>();
  fill_array(*array, data_);
  return capsule_of(std::move(array), "arrow_array");
}

nb::capsule ArrowTable::stream() const {
  auto stream = std::make_unique<ArrowArrayStream>(
      ArrowArrayStream{&next_schema, &next_array, &no_error, &release_stream, new Batches{data_}});
  return capsule_of(std::move(stream), "arrow_array_stream");
}

void bind_arrow(nb::module_& module) {
  using Asked = const nb::object&;  // a schema that is asked for; Arrow allows to give another one
  nb::class_<ArrowTable>(module, "ArrowTable",
                         "Columns for pyarrow, polars, duckdb and others, by the Arrow C data interface.")
      .def("__len__", &ArrowTable::rows)
      .def_prop_ro("column_names", &ArrowTable::names)
      .def("__arrow_c_schema__", [](const ArrowTable& t) -> nb::object { return t.schema(); })
      .def(
          "__arrow_c_array__",
          [](const ArrowTable& t, Asked) { return std::pair<nb::object, nb::object>(t.schema(), t.array()); },
          "requested_schema"_a.none() = nb::none())
      .def(
          "__arrow_c_stream__", [](const ArrowTable& t, Asked) -> nb::object { return t.stream(); },
          "requested_schema"_a.none() = nb::none());
}

}  // namespace ppsim::python
