// admit and try_admit.
#include "prompt.hpp"

namespace pagedkv::bindings {

namespace {

nb::object admit(Manager& self, nb::handle seq_id, nb::handle tokens, nb::handle salt, nb::handle reserve,
                 nb::handle max_hit_tokens, nb::handle spans) {
    const std::int64_t id = to_seq_id(seq_id);
    const PromptArgument prompt(self, tokens, salt, spans);
    const SequenceStore::Admit how{to_optional_int(reserve, "reserve"), to_max_hit_tokens(max_hit_tokens)};
    return result_of<Admission>(self, [&](SequenceStore& s, Admission& out) { s.admit(id, prompt.prompt(), how, out); });
}

}  // namespace

void bind_admission(nb::class_<Manager>& c) {
    using namespace nb::literals;
#define ADMIT_SIG(name, result)                                                          \
    nb::sig("def " name                                                                  \
            "(self, seq_id: int, tokens: numpy.typing.ArrayLike, *, salt: bytes = b'', " \
            "reserve: int | None = None, max_hit_tokens: int | None = None, "            \
            "spans: collections.abc.Sequence[tuple[int, int, bytes]] = ()) -> " result)
    c.def(
        "admit", &admit, "seq_id"_a.none(), "tokens"_a.none(), nb::kw_only(), "salt"_a.none() = nb::bytes(""),
        "reserve"_a = nb::none(), "max_hit_tokens"_a = nb::none(), "spans"_a.none() = nb::tuple(),
        ADMIT_SIG("admit", "Admission"),
        "Register a sequence, reference the blocks that already hold its prompt's head, make room for the rest; atomic.\n\n"
        "tokens: int32 [P] prompt ids, or () if they are not known. reserve: tokens to make room for (None: the whole\n"
        "prompt, 0: nothing). Afterwards length = cached_tokens; append the other prompt tokens by count. The watermark\n"
        "applies here only. With prefix caching: salt separates tenants and adapters (b\"\" = none); spans (start, stop,\n"
        "digest) say what lies over tokens start .. stop - 1 beyond their ids, an image say; a hit is whole committed blocks\n"
        "from block 0 on, at most floor((P - 1) / block_size) of them, or as max_hit_tokens allows.\n"
        "Modifies: the sequence, its row, its blocks. Errors: SequenceStateError (id is live), OutOfBlocksError (not now),\n"
        "NeverFitsError (more than the pool less the watermark), InvalidArgumentError.");
    c.def(
        "try_admit",
        [](Manager& m, nb::handle i, nb::handle t, nb::handle s, nb::handle r, nb::handle h, nb::handle p) {
            return or_none([&] { return admit(m, i, t, s, r, h, p); });
        },
        "seq_id"_a.none(), "tokens"_a.none(), nb::kw_only(), "salt"_a.none() = nb::bytes(""), "reserve"_a = nb::none(),
        "max_hit_tokens"_a = nb::none(), "spans"_a.none() = nb::tuple(), ADMIT_SIG("try_admit", "Admission | None"),
        "admit, but None where that raises OutOfBlocksError.");
#undef ADMIT_SIG
}

}  // namespace pagedkv::bindings
