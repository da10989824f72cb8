#include "program.hpp"

void Program::step() {
    if (options_.prefix_caching) model_.pattern = in_.byte();
    switch (in_.below(24)) {
        case 0:
        case 1: options_.prefix_caching ? serve() : admit(); break;
        case 2: admit(); break;
        case 3: reserve(); break;
        case 4: commit(); break;
        case 5: truncate(); break;
        case 6:
        case 7: free(); break;
        case 8: retire(); break;
        case 9: allocate(); break;
        case 10: pin(); break;
        case 11:
        case 12: unpin(); break;
        case 13: publish(); break;
        case 14: unpublish(); break;
        case 15: exports(); break;
        case 16: plan_bytes(); break;
        case 17: options_.prefix_caching ? lookup() : append(); break;
        case 18: options_.prefix_caching ? drain() : append(); break;
        case 19: options_.prefix_caching&& in_.below(4) == 0 ? reset() : append(); break;
        case 20:
        case 21: fork(); break;
        case 22:
        case 23: reorder(); break;
        default: append();
    }
    model_.check_all();
}
