package api

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"slices"
	"sort"
	"strconv"
	"strings"
	"sync"
	"time"
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

// How long a listing is kept, and how many are.
const (
	minKept    = 2 * time.Second
	mostKept   = 30 * time.Second
	keptFactor = 20 // times what it cost to read
	maxKept    = 4
)

// kept are the listings that were read for a page and have more pages in them, so that who walks a list does not
// cost a reading of the whole for each page. A page out of one is as the list stood when it was read; the last page
// of a list is always read anew.
type kept struct {
	mu    sync.Mutex
	lists []listing // guarded by mu; the oldest first
}

// listing is what a list had from some item on.
type listing struct {
	name  string
	items any // a slice of what the list has, never changed
}

// stretch is what a list has from a place on, and where that is in a kept listing.
type stretch[T any] struct {
	items []T
	name  string // empty: it is not kept
	from  int
}

// next is the place after a page, for its cursor.
func (s stretch[T]) next(limit int) string { return strconv.Itoa(s.from + limit) }

// keep keeps what was read since began, if a whole page and more lie between the next one and its end.
func keep[T any](k *kept, items []T, limit int, began time.Time) stretch[T] {
	if len(items) <= 2*limit {
		return stretch[T]{items: items}
	}
	l := listing{name: rand.Text(), items: items}
	k.mu.Lock()
	defer k.mu.Unlock()
	if len(k.lists) >= maxKept {
		k.lists = slices.Delete(k.lists, 0, 1)
	}
	k.lists = append(k.lists, l)
	time.AfterFunc(min(max(keptFactor*time.Since(began), minKept), mostKept), func() { k.drop(l.name) })
	return stretch[T]{items: items, name: l.name}
}

// drop forgets a listing.
func (k *kept) drop(name string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.lists = slices.DeleteFunc(k.lists, func(l listing) bool { return l.name == name })
}

// recall returns a kept listing from a place on, when a page and more are there.
func recall[T any](k *kept, name, place string, limit int) (s stretch[T], ok bool) {
	from, _ := strconv.Atoi(place) // signed by us
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, l := range k.lists {
		if items, same := l.items.([]T); same && l.name == name && from+limit < len(items) {
			return stretch[T]{items: items[from:], name: name, from: from}, true
		}
	}
	return s, false
}

// ordered is a list in the order of a key.
type ordered[T any] struct {
	which string // the list and its filter
	all   []T
	key   func(T) string
}

// sorted returns a page of a list in the order of a key, which each item keeps. What is added before the last one shown is not
// shown, and nothing comes twice.
func sorted[T any](a *API, in Paged, l ordered[T]) (*page[T], error) {
	all := l.all
	place, err := a.cursors.read(l.which, in.Cursor, 1)
	if err != nil {
		return nil, err
	}
	if place != nil {
		last, err := strconv.Unquote(place[0])
		if err != nil {
			return nil, err
		}
		all = all[sort.Search(len(all), func(i int) bool { return l.key(all[i]) > last }):]
	}
	return pageOf(all, in.limit(), func(item T) string { return a.cursors.write(l.which, strconv.Quote(l.key(item))) }), nil
}

// grown is a list that grows at its end.
type grown[T any] struct {
	which string // the list and its filter
	all   func() ([]T, error)
	match func(T) bool
	id    func(T) string
}

// walk returns a page of a list by the last item shown. What is new comes at the end, so nothing is skipped and nothing
// comes twice.
func walk[T any](a *API, in Paged, l grown[T]) (*page[T], error) {
	place, err := a.cursors.read(l.which, in.Cursor, 3) // a kept listing, the place in it, the last item shown
	if err != nil {
		return nil, err
	}
	limit := in.limit()
	if place != nil {
		if s, ok := recall[T](&a.kept, place[0], place[1], limit); ok {
			return l.page(a, s, limit), nil
		}
	}
	began := time.Now()
	all, err := l.all()
	if err != nil {
		return nil, err
	}
	var rest []T
	passed := place == nil
	for _, item := range all {
		if passed && l.match(item) {
			rest = append(rest, item)
		}
		passed = passed || l.id(item) == place[2]
	}
	if !passed {
		return nil, invalid("query.cursor", "what it names is gone; begin again without it")
	}
	return l.page(a, keep(&a.kept, rest, limit, began), limit), nil
}

// page makes the page at the beginning of a stretch.
func (l grown[T]) page(a *API, s stretch[T], limit int) *page[T] {
	return pageOf(s.items, limit, func(item T) string { return a.cursors.write(l.which, s.name, s.next(limit), l.id(item)) })
}
