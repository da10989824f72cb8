// A prompt as it comes from Python: token ids, salt, spans.
#pragma once

#include "manager_calls.hpp"

namespace pagedkv::bindings {

class PromptArgument {
public:
    PromptArgument(const Manager& self, nb::handle tokens, nb::handle salt, nb::handle spans);
    const Prompt& prompt() const { return prompt_; }

private:
    TokenArray tokens_;
    Prompt prompt_;
};

std::optional<std::int64_t> to_max_hit_tokens(nb::handle value);

}  // namespace pagedkv::bindings
