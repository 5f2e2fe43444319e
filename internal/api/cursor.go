package api

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"strconv"
	"strings"
)

// The page of a list (chapter 18).
const (
	defaultPage = 50
	maxPage     = 200
)

// Paged is what every list takes.
type Paged struct {
	Limit  int    `query:"limit" minimum:"1" maximum:"200" doc:"How many items at most; 50 when it is not said."`
	Cursor string `query:"cursor" doc:"Where the list goes on: next of the page before."`
}

func (p Paged) limit() int { return orDefault(p.Limit, defaultPage) }

// list is one page of a list.
type list[T any] struct {
	Items []T    `json:"items"`
	Next  string `json:"next,omitempty" doc:"The cursor of the next page; absent at the end."`
}

// cursors makes and reads places in lists. A cursor is signed, so that it stays opaque: nobody builds one, and a
// list may change what stands in it.
type cursors struct{ key [sha256.Size]byte }

// macBytes is how much of the signature a cursor carries.
const macBytes = 16

func newCursors(token string) cursors {
	return cursors{key: sha256.Sum256([]byte("perdure/cursor/1 " + token))}
}

// write makes the cursor of a place in a list; which names the list and its filter.
func (c cursors) write(which string, place ...string) string {
	text := strings.Join(place, "\n")
	return base64.RawURLEncoding.EncodeToString(append(c.sign(which, text), text...))
}

// read returns the place of a cursor that write made for the same list, in as many parts. An empty cursor is the start: nil.
func (c cursors) read(which, cursor string, parts int) ([]string, error) {
	if cursor == "" {
		return nil, nil
	}
	body, err := base64.RawURLEncoding.DecodeString(cursor)
	if err != nil || len(body) < macBytes || !hmac.Equal(body[:macBytes], c.sign(which, string(body[macBytes:]))) {
		return nil, invalid("query.cursor", "it is not one of this list; begin again without it")
	}
	place := strings.Split(string(body[macBytes:]), "\n")
	if len(place) != parts {
		return nil, invalid("query.cursor", "it is of another version; begin again without it")
	}
	return place, nil
}

func (c cursors) sign(which, text string) []byte {
	mac := hmac.New(sha256.New, c.key[:])
	mac.Write([]byte(strconv.Quote(which)))
	mac.Write([]byte(text))
	return mac.Sum(nil)[:macBytes]
}

// page is the answer with one page of a list.
type page[T any] struct{ Body list[T] }

// pageOf makes a page of the first limit of the rest of a list; cursor makes the cursor after an item.
func pageOf[T any](rest []T, limit int, cursor func(T) string) *page[T] {
	p := &page[T]{Body: list[T]{Items: []T{}}}
	if len(rest) > limit {
		rest = rest[:limit]
		p.Body.Next = cursor(rest[limit-1])
	}
	p.Body.Items = append(p.Body.Items, rest...)
	return p
}
