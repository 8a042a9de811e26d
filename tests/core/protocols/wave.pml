/* The dq wave of the backward pass (src/cpu/key_gradients-inl.h): threads claim items in order, the first of two blocks
 * and the others of one; the blocks of an item add to panel after panel, block b to each when block b-1 has. (The code
 * goes over groups of panels; a group waits as a panel does here.)
 */
#define THREADS 3
#define BLOCKS 4
#define PANELS 2
#define WORDS 4
#define DONE(panel) (panel)        /* blocks that have added to the panel */
#define DQ(panel) (PANELS + panel) /* what they have added: one each */
#include "memory.pml"

byte next;

proctype member(byte me) {
  byte first, end, block, panel, now, again, dq, answer, thread;
  do
  :: atomic { empty(buffer[me]) -> first = next; next = (first == 0 -> 2 : first + 1); end = next };
     if
     :: first >= BLOCKS -> break
     :: else
     fi;
     panel = 0;
     do
     :: panel < PANELS ->
        block = first;
        do
        :: block < end ->
           until(DONE(panel), now == block);
           load(DQ(panel), dq);
           assert(dq == block);
           store(DQ(panel), block + 1);
           set(DONE(panel), block + 1);
           block++
        :: else -> break
        od;
        panel++
     :: else -> break
     od
  od
}

init {
  byte thread;
  atomic {
    for (thread : 0 .. THREADS - 1) { run drain(thread); run member(thread) }
  }
}
