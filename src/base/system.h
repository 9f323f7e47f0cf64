// What the rest of the program needs of the operating system; system_posix.cpp is the only file
// that includes its headers. A Windows build puts system_windows.cpp beside it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace fathom::system {

// Zeroed pages, as huge pages where possible; nullptr when refused.
void* map_memory(size_t bytes);
void unmap_memory(void* address, size_t bytes);

// Processors that this process may use (affinity counts), at least 1.
int processor_count();

// Bytes of the processor's largest cache; 0 where unknown.
uint64_t largest_cache();

// Bytes of memory that can be taken now without swapping, by the machine and by the limits that
// this process stands under; 0 where unknown.
uint64_t available_memory();

// Of this process: the most memory that it ever had (swapped pages do not count), what it has now,
// and what of it is swapped out; 0 where unknown.
struct ProcessMemory {
  uint64_t peak = 0;
  uint64_t resident = 0;
  uint64_t swapped = 0;
};
ProcessMemory process_memory();

// The allocator keeps what is freed for later; these make it keep little: one heap for all threads,
// and giving back what is free now.
void keep_one_heap();
void trim_heap();

// Bytes that this process may still write to the file system of `folder`; the largest number where
// unknown.
uint64_t free_disk_bytes(const std::string& folder);

// True where the stream is a terminal.
bool stdin_is_terminal();
bool stdout_is_terminal();
bool stderr_is_terminal();
// Columns of the terminal behind stderr; 80 where unknown.
int terminal_columns();

// Calls `handler(signal)` on interrupt (Ctrl-C) and termination; the handler must be async-signal
// safe. nullptr restores the defaults.
void on_interrupt(void (*handler)(int));

// Writing to a pipe that nobody reads, or beyond the size that a file may have (ulimit -f), fails
// from here on, instead of ending the program in silence.
void ignore_write_signals();

// The file of the running program; "" where unknown.
std::string program_path();

// A name for a new temporary file beside `path`, unique to this process and call.
std::string temporary_name(const std::string& path);

}  // namespace fathom::system
