// The texts of the standard probe, written for it. A change of them changes the roles of every model.
#include "heads/standard_probe.h"

namespace polyhead::heads {
namespace {

constexpr const char* kProse =
    R"(The ferry left the quay at a quarter past six, when the fog had thinned enough for the pilot to see the second
buoy. Marta stood at the rail with her collar up and counted the lamps along the shore: eleven, then nine, then none.
Her brother had promised to meet her on the other side, but her brother promised many things, and the few that he kept
he kept late. She had packed for three days. In the bag were two shirts, a tin of tea, the letters, and the small brass
clock that their grandmother had wound every evening of her life, whether it needed winding or not.

By seven the sun had come through. The river, which had been grey all winter, turned the brown of strong tea, and on the
far bank the mill stood up out of the reeds like a tooth. Nobody had ground corn there since the flood. The wheel had
been carried two miles downstream and had come to rest in a field of beets, where the farmer, who was a practical man,
built a henhouse against it. Children were told that the hens laid square eggs. Some of them believed it, and the
farmer, when he was asked, never said no.

What the letters said was harder to laugh about. The house was to be sold before the end of the month; the debts were
larger than anyone had known; and the garden wall, over which the whole village had stolen pears for sixty years, had
fallen into the road in the night. "I would have mended it," her brother wrote, "if I had had the stones." Marta read
that sentence four times. The stones were lying in the road. That was the trouble with him, she thought, and folded the
page along its old crease: he looked at a thing until it was somewhere else, and then he missed it.

The ferry turned its nose into the current. An old man beside her took off his hat, as people of his age did at that
place, because a church had stood there once, and its bell was still somewhere below them in the mud. He told her that
his father had heard it ring in dry summers. He himself had not, although he had listened. "But I will tell you what I
did hear," he said, and put the hat back on. "I heard that a young woman was coming over to keep the house. And I said
to them: then there will be pears." She did not know what to answer, so she offered him some tea, which he took without
sugar, and they watched together how the landing stage came towards them, slowly at first and then all at once.

There was nobody on it but a dog. The dog sat beside a handcart, and on the handcart, in her brother's careful capitals,
a board said WALL THIS WAY, with an arrow that pointed up the hill. Half of the stones were loaded already. Marta looked
at the cart, and at the dog, and at the road, which was steep. Then she set the clock on top of the stones, where it
began to tick, since somebody had wound it that morning; and she took the handle, and the dog got up, and the three of
them went home. It took them until noon. Whenever she stopped to rest she could hear the clock, and below it, from the
water, or from nowhere, a sound so low that she might have made it up: one stroke, a long silence, and one stroke more.
In the evening she asked her brother whether he had heard it too. He said that he had not been listening, and then,
since she said nothing, he said that he had.
)";

constexpr const char* kCode =
    R"(# Keeps the readings of a few sensors, and says when one of them is out of line.
import json
from collections import deque


class Window:
    """The last `size` readings of one sensor."""

    def __init__(self, size):
        self.size = size
        self.values = deque(maxlen=size)
        self.total = 0.0

    def add(self, value):
        if len(self.values) == self.size:
            self.total -= self.values[0]
        self.values.append(value)
        self.total += value

    def mean(self):
        if not self.values:
            return None
        return self.total / len(self.values)

    def spread(self):
        mean = self.mean()
        if mean is None or len(self.values) < 2:
            return 0.0
        squares = sum((value - mean) ** 2 for value in self.values)
        return (squares / (len(self.values) - 1)) ** 0.5


def is_unusual(window, value, limit=3.0):
    spread = window.spread()
    if spread == 0.0:
        return False
    return abs(value - window.mean()) > limit * spread


def read_lines(path):
    with open(path, encoding="utf-8") as file:
        for number, line in enumerate(file, start=1):
            line = line.strip()
            if not line or line.startswith("#"):
                continue
            try:
                yield json.loads(line)
            except ValueError as error:
                raise ValueError(f"{path}:{number}: {error}") from error


def watch(path, size=20):
    windows = {}
    unusual = []
    for reading in read_lines(path):
        name, value = reading["sensor"], float(reading["value"])
        window = windows.setdefault(name, Window(size))
        if is_unusual(window, value):
            unusual.append((name, value, window.mean()))
        window.add(value)
    return windows, unusual


def main(arguments):
    if len(arguments) != 2:
        print("usage: watch.py FILE")
        return 2
    windows, unusual = watch(arguments[1])
    for name, window in sorted(windows.items()):
        print(f"{name:<12} {window.mean():8.2f} {window.spread():8.2f}")
    for name, value, mean in unusual:
        print(f"{name}: {value} where {mean:.2f} was expected")
    return 1 if unusual else 0


/* The same in C, for a board without a file system. */
double fabs(double x);
double sqrt(double x);

struct window {
  double values[20];
  int count, next;
};

static void add(struct window *w, double value) {
  w->values[w->next] = value;
  w->next = (w->next + 1) % 20;
  if (w->count < 20) w->count++;
}

static double mean(const struct window *w) {
  double total = 0;
  for (int i = 0; i < w->count; i++) total += w->values[i];
  return w->count == 0 ? 0 : total / w->count;
}

int unusual(const struct window *w, double value) {
  double m = mean(w), squares = 0;
  for (int i = 0; i < w->count; i++) {
    double d = w->values[i] - m;
    squares += d * d;
  }
  if (w->count < 2) return 0;
  return fabs(value - m) > 3 * sqrt(squares / (w->count - 1));
}
)";

constexpr const char* kList =
    R"(Shopping for the week
- 2 loaves of rye bread
- 1 dozen eggs
- 500 g butter
- 3 onions, red
- 1 bunch of parsley
- 6 lemons
- 250 ml cream
- salt, pepper, paprika
- 4 candles

Opening hours
Monday: 9:00 to 17:30
Tuesday: 9:00 to 17:30
Wednesday: closed
Thursday: 9:00 to 20:00
Friday: 9:00 to 17:30
Saturday: 10:00 to 14:00
Sunday: closed

Rivers and their lengths in kilometres
1. Danube; 2,850; ten countries; Black Sea
2. Rhine; 1,230; six countries; North Sea
3. Elbe; 1,094; two countries; North Sea
4. Loire; 1,006; one country; Atlantic
5. Tagus; 1,007; two countries; Atlantic
6. Oder; 840; three countries; Baltic Sea
7. Rhone; 813; two countries; Mediterranean
8. Po; 652; one country; Adriatic
9. Thames; 346; one country; North Sea

Trees in the park: oak, ash, elm, beech, birch, alder, willow, poplar, maple, lime, chestnut, walnut, hazel, rowan,
hawthorn, holly, yew, pine, larch, spruce, fir, cedar.

Instruments by family
Strings: violin, viola, cello, double bass, harp, guitar
Woodwind: flute, oboe, clarinet, bassoon, piccolo
Brass: horn, trumpet, trombone, tuba
Percussion: timpani, snare drum, triangle, cymbals, xylophone
Keyboard: piano, organ, celesta, harpsichord

Name, town, year, pieces
Anna Berg, Lund, 1998, 14
Tomas Silva, Porto, 2003, 9
Ines Moreau, Lyon, 2011, 22
Karl Vogel, Bremen, 1987, 5
Maria Conti, Parma, 2015, 17
Piotr Zielinski, Gdansk, 2009, 11
Helen Ward, Leeds, 1992, 8
Jonas Eklund, Turku, 2018, 30

Steps
(a) Empty the basin and rinse it twice.
(b) Close valve 3; open valve 4.
(c) Wait until the needle is below 20.
(d) Turn the key to the left, half a turn.
(e) Write the time, the level and your name in the book.
(f) Put the key back.

Colours: red #ff0000, green #00ff00, blue #0000ff, grey #808080, orange #ffa500, violet #ee82ee.
Moons: Io, Europa, Ganymede, Callisto; Titan, Rhea, Dione, Tethys, Mimas; Titania, Oberon; Triton.
Months with 30 days: April, June, September, November. With 31: January, March, May, July, August, October, December.
Sizes: XS 34, S 36, M 38, L 40, XL 42, XXL 44.
Units: metre (m), second (s), kilogram (kg), ampere (A), kelvin (K), mole (mol), candela (cd).

Departures
06:12 Northgate 3
06:40 Harbour 1
07:05 Airport 2
07:20 Northgate 3
07:48 Millbrook 4
08:10 Harbour 1
08:33 Old Town 2
09:00 Airport 2
)";

constexpr const char* kDialogue =
    R"(Nora: Did you lock the shed?
Ben: I thought you did.
Nora: I gave you the key. On Tuesday, by the gate. You put it in your coat.
Ben: Which coat?
Nora: The green one. The one with the hole in the pocket.
Ben: Ah.
Nora: Don't tell me.
Ben: I won't, then.

Clerk: Good morning. How can I help you?
Visitor: I would like to report a missing umbrella. Black, with a wooden handle.
Clerk: When did you last see it?
Visitor: On the number 14, yesterday, between four and five. I was sitting at the back.
Clerk: We have thirty-one black umbrellas from yesterday. Does it have a name on it?
Visitor: No, but it has a duck.
Clerk: A duck?
Visitor: The handle is a duck. I should have said so first.
Clerk: You should have, sir. It has been looking at me all morning.

"What are you reading?" asked Sam.
"Nothing," said Ida, and turned the page.
"It must be something. You laughed."
"I laughed because you asked me before, and I said nothing before, and it was nothing then, too."
"So it is a book about nothing."
"It is a timetable," said Ida. "The five o'clock train arrives before it leaves. Look."
Sam looked. "That's a mistake," he said.
"Of course it is a mistake. Why do you think I laughed?"

A: Can you hear me now?
B: Yes, but there's an echo. Can you hear me?
A: I can. Say something else.
B: Something else.
A: Very good. Where were we?
B: You were going to explain why the numbers in the second table don't add up.
A: They do add up. They add up to ninety-eight, because we rounded each of them down.
B: And the first table?
A: We rounded those up.
B: Who is "we"?
A: Well. I did. But you signed it!
B: I signed it because you told me that it added up.

Doctor: How long have you had the cough?
Patient: Two weeks, maybe three. It's worse at night.
Doctor: Any fever?
Patient: No. A little on Sunday, but I had been in the sun.
Doctor: Do you smoke?
Patient: Not since March.
Doctor: Good. Breathe in, please. And out. Again. Does that hurt?
Patient: Only when you ask.

Host: Welcome back. With me is the woman who rowed around the island in eleven days. Weren't you afraid?
Guest: Of the sea? No. Of the ferry, yes. It comes at ten past six, and it does not look where it is going.
Host: What did you eat?
Guest: Pears, mostly. Somebody's wall had fallen down.
Host: And what will you do next?
Guest: Sleep. Then I'll row around it the other way, to see whether it is the same island.
Host: Do you expect that it isn't?
Guest: I expect that I am not. That is why one goes, isn't it?
)";

}  // namespace

const std::vector<ProbeText>& standard_texts() {
  static const std::vector<ProbeText> texts{
      {"prose", kProse}, {"code", kCode}, {"list", kList}, {"dialogue", kDialogue}};
  return texts;
}

}  // namespace polyhead::heads
