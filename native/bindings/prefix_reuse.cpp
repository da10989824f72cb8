// lookup, reset_prefix_cache, drain_events, and how a prompt is read.
#include "prompt.hpp"

namespace pagedkv::bindings {

namespace {

std::string to_bytes(nb::handle value, const char* name) {
    if (!nb::isinstance<nb::bytes>(value)) throw InvalidArgument(join(name, " must be bytes"));
    const auto bytes = nb::borrow<nb::bytes>(value);
    return {bytes.c_str(), bytes.size()};
}

Cover to_cover(nb::handle span) {
    if (!nb::isinstance<nb::tuple>(span) || nb::len(nb::borrow<nb::tuple>(span)) != 3)
        throw InvalidArgument("a span is (start, stop, digest): two token positions and bytes");
    const auto parts = nb::borrow<nb::tuple>(span);
    return Cover{to_int(parts[0], "a span's start"), to_int(parts[1], "a span's stop"), to_bytes(parts[2], "a span's digest")};
}

struct Events {
    nb::object kinds, blocks, serials, parents, token_starts, tokens, salt_digests;
};

template <class T>
nb::object array_of(const std::vector<T>& values) {
    auto copy = std::make_unique_for_overwrite<T[]>(values.size());
    std::copy(values.begin(), values.end(), copy.get());
    return own(std::move(copy), static_cast<std::int64_t>(values.size()));
}

class GiveUp {
public:
    explicit GiveUp(Manager& self) : self_(self) {}
    ~GiveUp() {
        if (!done_) locked(self_, [](SequenceStore& s) { s.give_events_up(); });
    }
    GiveUp(const GiveUp&) = delete;
    GiveUp& operator=(const GiveUp&) = delete;
    Events done(Events events) {
        done_ = true;
        return events;
    }

private:
    Manager& self_;
    bool done_ = false;
};

Events drain_events(Manager& self) {
    EventBatch batch = locked(self, [](SequenceStore& s) { return s.drain_events(); });
    // Taken and then not handed over, they would be missed for ever: the next drain answers with everything instead.
    GiveUp unless_done(self);
    batch.token_starts.push_back(static_cast<std::int64_t>(batch.tokens.size()));
    return unless_done.done({array_of(batch.kinds), array_of(batch.blocks), array_of(batch.serials), array_of(batch.parents),
                             array_of(batch.token_starts), array_of(batch.tokens), array_of(batch.salt_digests)});
}

}  // namespace

PromptArgument::PromptArgument(const Manager& self, nb::handle tokens, nb::handle salt, nb::handle spans)
    : tokens_(to_tokens(tokens, "tokens", values_of(self))) {
    prompt_.count = tokens_.count;
    if (tokens_.ids) prompt_.tokens = {tokens_.ids.get(), static_cast<std::size_t>(tokens_.count)};
    prompt_.salt = to_bytes(salt, "salt (b\"\" means none)");
    if (!nb::isinstance<nb::list>(spans) && !nb::isinstance<nb::tuple>(spans))
        throw InvalidArgument("spans must be a list of (start, stop, digest)");
    for (const nb::handle span : nb::borrow<nb::sequence>(spans)) prompt_.covers.push_back(to_cover(span));
}

std::optional<std::int64_t> to_max_hit_tokens(nb::handle value) {
    const std::optional<std::int64_t> most = to_optional_int(value, "max_hit_tokens");
    if (most.value_or(0) < 0)
        throw InvalidArgument("max_hit_tokens is negative; give the most tokens to take from the cache, or None");
    return most;
}

void bind_events(nb::module_& m) {
#define ARRAY(name, dtype) nb::sig("def " name "(self) -> numpy.typing.NDArray[numpy." dtype "]")
    nb::class_<Events>(m, "CacheEvents",
                       "What became findable and what ceased to be, in order; one entry a content (a block with its chain).\n\n"
                       "Fresh arrays, valid for ever. A serial names a content and is never given to another one.")
        .def("__len__", [](const Events& e) { return nb::len(e.kinds); })
        .def_prop_ro(
            "kinds", [](const Events& e) { return e.kinds; }, ARRAY("kinds", "int32"), "0 stored, 1 removed, 2 all cleared.")
        .def_prop_ro(
            "blocks", [](const Events& e) { return e.blocks; }, ARRAY("blocks", "int32"),
            "A block that holds (held) the content; -1 for cleared.")
        .def_prop_ro(
            "serials", [](const Events& e) { return e.serials; }, ARRAY("serials", "int64"))
        .def_prop_ro(
            "parents", [](const Events& e) { return e.parents; }, ARRAY("parents", "int64"),
            "Serial of the content before it; 0: it is the first of its prompt.")
        .def_prop_ro(
            "token_starts", [](const Events& e) { return e.token_starts; }, ARRAY("token_starts", "int64"),
            "[n + 1]: entry i has tokens[token_starts[i]:token_starts[i + 1]], none unless stored.")
        .def_prop_ro(
            "tokens", [](const Events& e) { return e.tokens; }, ARRAY("tokens", "int32"))
        .def_prop_ro(
            "salt_digests", [](const Events& e) { return e.salt_digests; }, ARRAY("salt_digests", "int64"),
            "64 bits that stand for the salt, equal in all processes; 0: no salt. Not a secret.");
#undef ARRAY
}

void bind_prefix_reuse(nb::class_<Manager>& c) {
    using namespace nb::literals;
    c.def(
        "lookup",
        [](Manager& self, nb::handle tokens, nb::handle salt, nb::handle max_hit_tokens, nb::handle spans) {
            const PromptArgument prompt(self, tokens, salt, spans);
            const auto most = to_max_hit_tokens(max_hit_tokens);
            return locked(self, [&](SequenceStore& s) { return s.lookup(prompt.prompt(), most); });
        },
        "tokens"_a.none(), nb::kw_only(), "salt"_a.none() = nb::bytes(""), "max_hit_tokens"_a = nb::none(),
        "spans"_a.none() = nb::tuple(),
        nb::sig("def lookup(self, tokens: numpy.typing.ArrayLike, *, salt: bytes = b'', max_hit_tokens: int | None = None, "
                "spans: collections.abc.Sequence[tuple[int, int, bytes]] = ()) -> int"),
        "Tokens that admit of this prompt would take from the cache now. Read-only: moves no counter and no order.\n\n"
        "0 without prefix caching, for an empty prompt, and where nothing is known. Arguments and errors: as admit.");
    c.def(
        "reset_prefix_cache",
        [](Manager& self) { return locked(self, [](SequenceStore& s) { return s.reset_prefix_cache(); }); },
        "Forget all contents; False, and nothing is changed, while any sequence lives.");
    c.def("drain_events", &drain_events,
          "What happened to the cache since the last call.\n\n"
          "The first call begins the record, which costs nothing before, and answers with a cleared and everything that is\n"
          "findable; so does one after more than 4 events a block went unread. Empty without prefix caching.");
    c.def_prop_ro(
        "prefix_caching", [](Manager& self) { return self.prefix_caching(); }, "Whether contents are found again.");
}

}  // namespace pagedkv::bindings
