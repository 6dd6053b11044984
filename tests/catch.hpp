// SPDX-License-Identifier: Apache-2.0
// Catch2, v2 or v3, under one name.
#pragma once
#if __has_include(<catch2/catch_all.hpp>)
#include <catch2/catch_all.hpp>
#else
#include <catch2/catch.hpp>
#endif
