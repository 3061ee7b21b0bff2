// One function per file. Each registers its benchmarks with the names in docs/performance.md.

#pragma once

namespace weir::bench {

void add_hot_key();
void add_many_keys();
void add_memory_access();
void add_new_tuples();

}  // namespace weir::bench
