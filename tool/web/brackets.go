package web

// maxBracket is how far the end of a link is looked for behind a "[". The converter's own search goes on to the end of
// the line for each of them, which is time with the square of the page, and does not end with a context.
const maxBracket = 128

// unescapeBracket says for a "[" that stood in the text of a page whether it is written with a backslash: where it might
// begin a link, and where nobody looks far enough to know. It runs before the converter's own handlers, of which one
// is asked only where the line ends soon. -1: leave it to them.
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
