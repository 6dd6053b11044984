// SPDX-License-Identifier: Apache-2.0
// Everything a program that embeds attune needs.
#pragma once
#include <attune/builder.hpp>
#include <attune/device.hpp>
#include <attune/diagnostic.hpp>
#include <attune/dtype.hpp>
#include <attune/engine.hpp>
#include <attune/kernel.hpp>
#include <attune/options.hpp>
#include <attune/program.hpp>
#include <attune/stdlib.hpp>
#include <attune/tensor_ref.hpp>
