// What the page knows about roles by their names. Their colours are in the style sheet, one for each.

export const noRole = 'no clear role';

// Its variable in the style sheet: "previous token" -> --role-previous-token. One that is not there looks like --role-other.
export const inkOf = (role) => role === noRole ? '--role-none' : `--role-${role.replace(/[^a-z0-9]+/gi, '-')}`;

// What heads do that have nothing to do; grey.
const quiet = ['first token', 'special token', 'separator', 'averaging', noRole];
export const isQuiet = (role) => !role || quiet.includes(role);

// Where such a head looks, and what that is good for.
const means = {
  'induction': ['It finds where this token stood before and looks at what came next.', 'So a model goes on with what it has seen once.'],
  'duplicate': ['It looks at earlier occurrences of the same token.', 'So later heads know that a word comes again, and from where.'],
  'previous token': ['It looks at the token just before.', 'So each token knows what it follows; induction builds on that.'],
  'positional': ['It looks a fixed number of tokens back, whatever stands there.', 'Such heads put together what belongs together by its place.'],
  'rare token': ['It looks at the rarest token that it sees.', 'Rare words carry most of what a text is about.'],
  'separator': ['It looks at punctuation and the like.', 'That is mostly where a head rests that has nothing to add.'],
  'special token': ['It looks at special tokens, which are no words.', 'That is where a head rests that has nothing to add here.'],
  'first token': ['It looks at the first token, which says nothing.', 'That is where a head rests that has nothing to add here.'],
  'averaging': ['It looks at all tokens about equally.', 'What it adds is a mean of the text so far, or nothing that it has learnt.'],
  [noRole]: ['Where it looks fits none of the roles that are known.', 'Point at its map, or try another text, to find out.'],
};
export const meaningOf = (role) =>
  means[role] ?? [`Its role is called “${role}”.`, 'Its map shows where it looks, the numbers how surely.'];
