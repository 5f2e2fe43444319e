package web

// maxBracket limits the search for the end of a link after a "[". The converter itself searches to
// the end of the line for each "[", which takes quadratic time, and does not stop when its context
// ends.
const maxBracket = 128

// unescapeBracket decides whether a "[" from the text of a page needs a backslash: yes, if a "]"
// follows or the line continues beyond maxBracket. It runs before the converter's own handlers. It
// returns -1 to leave the decision to them, which is safe only if the line ends soon.
func unescapeBracket(chars []byte, index int) int {
	if chars[index] != '[' {
		return -1
	}
	ahead := chars[index+1 : min(index+1+maxBracket, len(chars))]
	for _, c := range ahead {
		switch c {
		case '\n':
			return -1
		case ']':
			return 1
		}
	}
	if len(ahead) < maxBracket {
		return -1
	}
	return 1
}
