#include "event_picture.hpp"

#include <algorithm>

#include "store_model.hpp"

using pagedkv::EventKind;

void EventPicture::stored(std::int64_t serial, const Entry& entry) {
    demand(serial > 0, "a serial that is none");
    demand(entry.parent == 0 || now_.contains(entry.parent), "a content was stored below one that is not known");
    demand(now_.emplace(serial, entry).second, "a content was stored twice");
    demand(ever_.emplace(serial, entry).first->second == entry, "a serial was given to another content");
}

void EventPicture::apply(const pagedkv::EventBatch& batch) {
    const std::size_t n = batch.kinds.size();
    demand(batch.blocks.size() == n && batch.serials.size() == n && batch.parents.size() == n, "columns of events");
    demand(batch.token_starts.size() == n && batch.salt_digests.size() == n, "columns of events");
    for (std::size_t i = 0; i < n; ++i) {
        const auto end = i + 1 < n ? batch.token_starts[i + 1] : static_cast<std::int64_t>(batch.tokens.size());
        const std::vector<std::int32_t> tokens(batch.tokens.begin() + batch.token_starts[i], batch.tokens.begin() + end);
        switch (static_cast<EventKind>(batch.kinds[i])) {
            case EventKind::stored: stored(batch.serials[i], Entry{batch.parents[i], batch.salt_digests[i], tokens}); break;
            case EventKind::removed: demand(now_.erase(batch.serials[i]) == 1, "a content was removed that nobody knew"); break;
            default: now_.clear();
        }
    }
}

EventPicture::Chain EventPicture::chain(std::int64_t serial) const {
    Chain chain;
    chain.first = now_.at(serial).salt;
    for (; serial != 0; serial = now_.at(serial).parent) {
        demand(now_.contains(serial), "a content outlived the one above it");
        demand(now_.at(serial).salt == chain.first, "a chain with two salts");
        chain.second.insert(chain.second.begin(), now_.at(serial).tokens);
    }
    return chain;
}

void EventPicture::check(const ContentModel& contents) const {
    std::vector<Chain> known, right;
    for (const auto& [serial, entry] : now_) known.push_back(chain(serial));
    for (const auto& [content, blocks] : contents.all()) {
        Chain chain{pagedkv::salt_digest(content.salt), {}};
        for (const ModelBlockContent& block : content.chain) chain.second.push_back(block.tokens);
        right.push_back(chain);
    }
    std::sort(known.begin(), known.end());
    std::sort(right.begin(), right.end());
    demand(known == right, "the events do not tell what can be found");
}
