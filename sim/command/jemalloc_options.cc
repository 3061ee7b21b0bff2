// The options of jemalloc, which it reads from this variable. Huge pages: a large fleet has
// gigabytes, and accesses them in no order. One arena: there is one thread.

extern "C" const char* malloc_conf;
const char* malloc_conf = "thp:always,metadata_thp:always,narenas:1";
