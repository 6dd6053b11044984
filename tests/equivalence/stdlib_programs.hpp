// SPDX-License-Identifier: Apache-2.0
// Every program of the standard library, written with the fluent builder.
#pragma once
#include <attune/builder.hpp>
#include <functional>
#include <map>
#include <string>

/// By name, e.g. built_programs().at("causal")().
const std::map<std::string, std::function<attune::Program()>>& built_programs();
