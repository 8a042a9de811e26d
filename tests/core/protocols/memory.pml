/* Memory with store buffers, and core/awaited.h on top of it.
 *
 * A store waits in the buffer of its thread and reaches memory at any later time, in order. A read-modify-write and a
 * fence wait until the buffer is empty. The kernel compares and puts to sleep in one step.
 *
 * With -DOLD the protocol is the one that hung: release instead of sequentially consistent, so that the question
 * whether anybody sleeps may be answered before the store, or the addition, is seen.
 *
 * Who includes this defines THREADS and WORDS, and calls its own thread `me`.
 */
byte word[WORDS];
byte sleepers[WORDS];    /* how many said that they are about to sleep */
byte asleep[THREADS];    /* 1 + the word that the kernel has put the thread to sleep on */
chan buffer[THREADS] = [2] of { byte, byte };  /* word, number */

proctype drain(byte thread) {
  byte w, number;
end:
  do
  :: d_step { buffer[thread] ? w, number; word[w] = number; w = 0; number = 0 }
  od
}

/* A thread would see its own store before memory does; no thread here reads what it has just stored. */
inline load(w, into) {
  d_step {
    assert(!(buffer[me] ?? [eval(w), _]));
    into = word[w]
  }
}
inline store(w, number) { buffer[me] ! w, number }
inline fence() { empty(buffer[me]) }

inline wake_if(answer, w) {
  if
  :: answer ->
     d_step {
       empty(buffer[me]);
       thread = 0;
       do
       :: thread < THREADS -> asleep[thread] = (asleep[thread] == w + 1 -> 0 : asleep[thread]); thread++
       :: else -> break
       od;
       thread = 0; answer = 0
     }
  :: else
  fi
}

/* Any one of those whom the kernel has put to sleep on the word. */
inline wake_one_if(answer, w) {
  if
  :: answer ->
     atomic {
       empty(buffer[me]);
       answer = 0;
       if
       :: asleep[0] == w + 1 -> asleep[0] = 0
       :: asleep[1] == w + 1 -> asleep[1] = 0
       :: asleep[2] == w + 1 -> asleep[2] = 0
       :: else
       fi
     }
  :: else
  fi
}

/* Awaited::set */
inline set(w, number) {
  store(w, number);
#ifndef OLD
  fence();
#endif
  answer = sleepers[w];
  wake_if(answer, w)
}

/* The addition, and the answer to whether anybody sleeps. */
inline add_and_ask(w) {
#ifdef OLD
  if
  :: answer = sleepers[w]; atomic { empty(buffer[me]) -> word[w]++ }
  :: atomic { empty(buffer[me]) -> word[w]++ }; answer = sleepers[w]
  fi
#else
  atomic { empty(buffer[me]) -> word[w]++ };
  answer = sleepers[w]
#endif
}

/* Awaited::add, and Awaited::add_waking of one */
inline add(w) { add_and_ask(w); wake_if(answer, w) }
inline add_waking_one(w) { add_and_ask(w); wake_one_if(answer, w) }

/* Awaited::until, with `ready` an expression of `now` */
inline until(w, ready) {
  do
  :: load(w, now);
     if
     :: ready -> break
     :: else
     fi;
     atomic { empty(buffer[me]) -> sleepers[w]++ };
     do
     :: d_step {
          empty(buffer[me]);
          asleep[me] = (word[w] == now -> w + 1 : 0)
        };
        asleep[me] == 0;
        atomic {
          load(w, again);
          if
          :: again == now -> again = 0
          :: else -> again = 0; break
          fi
        }
     od;
     atomic { sleepers[w]--; now = 0 }
  od
}
