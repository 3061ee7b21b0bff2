// What is measured, one function per file. Each adds its benchmarks under the names in
// docs/performance.md.

#pragma once

namespace weir::bench {

void add_hot_key();
void add_many_keys();
void add_touch();
void add_new_tuples();

}  // namespace weir::bench
