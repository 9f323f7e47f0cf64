// The only place that looks at the processor.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace fathom {

struct LinearKernels;      // linear/linear.h
struct CombineKernels;     // combine/combine.h
struct AttentionKernels;   // attention/attention.h
struct NormKernels;        // norm/norm.h
struct ActivationKernels;  // activation/activation.h

// One implementation of every operation. All sets give the same bits.
struct KernelSet {
  const char* name;  // "reference", "avx2", "avx512", "neon"
  const LinearKernels* linear;
  const CombineKernels* combine;
  const AttentionKernels* attention;
  const NormKernels* norm;
  const ActivationKernels* activation;
};

// The fastest set that this processor runs.
const KernelSet& best_kernels();
// The set of that name; Error(usage) where the name is unknown or this processor cannot run it.
const KernelSet& kernels_named(std::string_view name);
// Every set that this processor runs, the reference first.
std::vector<const KernelSet*> available_kernels();

}  // namespace fathom
