// A test harness in one page: TEST(name) { CHECK(...); }. A program runs all its tests, or those whose names contain
// its first argument, and fails if there are none.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <exception>
#include <functional>
#include <iostream>
#include <random>
#include <string>
#include <utility>
#include <vector>

namespace harness {

struct Failure {
    std::string what;
};

struct Test {
    std::string name;
    std::function<void()> body;
};

inline std::vector<Test>& tests() {
    static std::vector<Test> all;
    return all;
}

struct Registration {
    Registration(const char* name, std::function<void()> body) { tests().push_back({name, std::move(body)}); }
};

[[noreturn]] inline void fail(const char* file, int line, const std::string& what) {
    throw Failure{std::string(file) + ":" + std::to_string(line) + ": " + what};
}

template <class T>
std::string shown(const T& value) {
    if constexpr (requires { std::to_string(value); }) return std::to_string(value);
    else if constexpr (requires { std::string(value); }) return std::string(value);
    else if constexpr (requires { value.begin(); }) {
        std::string text = "[";
        for (const auto& item : value) text += shown(item) + " ";
        return text + "]";
    } else return "value";
}

template <class A, class B>
void equal(const char* file, int line, const char* text, const A& left, const B& right) {
    if (!(left == right)) fail(file, line, std::string(text) + ": " + shown(left) + " is not " + shown(right));
}

template <class Expected, class Work>
void throws(const char* file, int line, const char* text, Work&& work) {
    try {
        work();
    } catch (const Expected&) {
        return;
    } catch (const std::exception& other) {
        fail(file, line, std::string(text) + " threw another error: " + other.what());
    }
    fail(file, line, std::string(text) + " threw nothing");
}

inline int run(int argc, char** argv) {
    const std::string wanted = argc > 1 ? argv[1] : "";
    int run = 0, failed = 0;
    for (const Test& test : tests()) {
        if (test.name.find(wanted) == std::string::npos) continue;
        ++run;
        try {
            test.body();
        } catch (const Failure& failure) {
            ++failed;
            std::cerr << "FAIL " << test.name << "\n  " << failure.what << "\n";
        } catch (const std::exception& error) {
            ++failed;
            std::cerr << "FAIL " << test.name << "\n  unexpected error: " << error.what() << "\n";
        }
    }
    std::cout << run << " tests, " << failed << " failed\n";
    return run > 0 && failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}

using Random = std::mt19937_64;  // the same numbers on every machine; the standard distributions are not

inline std::int64_t below(Random& random, std::int64_t bound) {
    return static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(bound));
}

}  // namespace harness

#define TEST(name)                                                            \
    static void test_##name();                                                \
    static const harness::Registration registered_##name{#name, test_##name}; \
    static void test_##name()
#define CHECK(...) ((__VA_ARGS__) ? void() : harness::fail(__FILE__, __LINE__, #__VA_ARGS__))
#define CHECK_EQ(left, right) harness::equal(__FILE__, __LINE__, #left " == " #right, left, right)
#define CHECK_THROWS(Expected, ...) harness::throws<Expected>(__FILE__, __LINE__, #__VA_ARGS__, [&] { __VA_ARGS__; })
