/* The team (src/core/team.cpp): rounds of a caller and its workers, in a burst and out of it.
 *
 * A fork copies the memory and none of the threads but one. The child makes a team of its own, so nothing of the
 * parent's reaches it but what the C++ library remembers of sleepers that are not there: any number to begin with.
 */
#define WORKERS 2
#define THREADS 3
#define ROUNDS 2
#define ROUND 0
#define FINISHED 1
#define SEATS 2
#define CALL 3
#define STOP 4
#define BURSTS 5
#define WORDS 6
#include "memory.pml"

byte calling;  /* the round that the caller is in */
byte inside;   /* workers that are at work */
byte gone;     /* workers that can be joined */

proctype worker(byte me) {
  byte seen, now, again, seat, call, answer, thread;
  do
  :: if  /* look_for_work: a look in a burst changes nothing, so one stands for all */
     :: word[BURSTS] -> atomic { load(ROUND, now); now = 0 }
     :: true
     fi;
     until(ROUND, now != seen);
     atomic { seen = now; now = 0; load(STOP, call) };
     if
     :: call -> break
     :: else
     fi;
     load(SEATS, seat);
     do
     :: atomic {
          seat > 0 && empty(buffer[me]);
          if
          :: word[SEATS] == seat -> word[SEATS] = seat - 1; inside++; break
          :: else -> seat = word[SEATS]
          fi
        }
     :: seat == 0 -> break
     od;
     if
     :: seat > 0 ->
        atomic { seat = 0; load(CALL, call); assert(call == calling); call = 0 };  /* whatever round it woke for */
        inside--;
        add(FINISHED)
     :: else
     fi
  od;
  gone++
}

proctype caller(byte me) {
  byte round, members, begun, now, again, answer, thread;
  for (round : 1 .. ROUNDS) {
    atomic {
      calling = round;
      if
      :: members = 2
      :: members = 3
      fi;
      if
      :: word[BURSTS] = 0
      :: word[BURSTS] = 1
      fi
    }
    store(CALL, round);
    store(FINISHED, 0);
    store(SEATS, members - 1);
    if
    :: members == THREADS -> add(ROUND)
    :: else -> add_waking_one(ROUND)
    fi;
    if  /* works alone, or on what needs everybody */
    :: true
    :: true -> word[SEATS] == 0
    fi;
    atomic { empty(buffer[me]) -> begun = members - 1 - word[SEATS]; word[SEATS] = 0; members = 0 };
    until(FINISHED, now == begun);
    atomic {
      assert(inside == 0);  /* or it would work on memory that the call no longer holds */
      calling = 0; begun = 0; now = 0
    }
  }
  store(STOP, 1);
  add(ROUND);
  gone == WORKERS
}

init {
  byte thread;
  atomic {
    if
    :: true
    :: sleepers[ROUND] = 1; sleepers[FINISHED] = 1
    fi;
    run drain(0);  /* workers store nothing */
    run caller(0);
    for (thread : 1 .. WORKERS) { run worker(thread) }
  }
}
