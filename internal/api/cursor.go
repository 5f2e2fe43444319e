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

// defaultPage is the size of a page for which no limit is given.
const defaultPage = 50

// single is the output of an operation that returns one thing.
type single[T any] struct{ Body T }

func singleOf[T any](v T, err error) (*single[T], error) { return &single[T]{v}, err }

// Paged holds the parameters of every list.
type Paged struct {
	Limit  int    `query:"limit" minimum:"1" maximum:"200" doc:"The maximum number of items; default 50."`
	Cursor string `query:"cursor" doc:"Where to continue: next of the previous page."`
}

func (p Paged) limit() int { return orDefault(p.Limit, defaultPage) }

// list is one page of a list.
type list[T any] struct {
	Items []T    `json:"items"`
	Next  string `json:"next,omitempty" doc:"The cursor of the next page; absent on the last page."`
}

// cursors encodes and decodes positions in lists. A cursor is signed and therefore opaque: clients
// cannot build one, so a list is free to change its contents.
type cursors struct{ key [sha256.Size]byte }

// macBytes is the number of signature bytes in a cursor.
const macBytes = 16

func newCursors(token string) cursors {
	return cursors{key: sha256.Sum256([]byte("perdure/cursor/1 " + token))}
}

// write encodes a position in a list. which names the list and its filter.
func (c cursors) write(which string, place ...string) string {
	text := strings.Join(place, "\n")
	return base64.RawURLEncoding.EncodeToString(append(c.sign(which, text), text...))
}

// read returns the position in a cursor that write made for the same list, split into parts. An
// empty cursor is the start: nil.
func (c cursors) read(which, cursor string, parts int) ([]string, error) {
	if cursor == "" {
		return nil, nil
	}
	body, err := base64.RawURLEncoding.DecodeString(cursor)
	if err != nil || len(body) < macBytes || !hmac.Equal(body[:macBytes], c.sign(which, string(body[macBytes:]))) {
		return nil, invalid("query.cursor", "this cursor does not belong to this list; start again without a cursor")
	}
	place := strings.Split(string(body[macBytes:]), "\n")
	if len(place) != parts {
		return nil, invalid("query.cursor", "this cursor comes from another version; start again without a cursor")
	}
	return place, nil
}

func (c cursors) sign(which, text string) []byte {
	mac := hmac.New(sha256.New, c.key[:])
	mac.Write([]byte(strconv.Quote(which)))
	mac.Write([]byte(text))
	return mac.Sum(nil)[:macBytes]
}

// page is the response with one page of a list.
type page[T any] struct{ Body list[T] }

// pageOf makes a page of the first limit items of rest. cursor makes the cursor after an item.
func pageOf[T any](rest []T, limit int, cursor func(T) string) *page[T] {
	p := &page[T]{Body: list[T]{Items: []T{}}}
	if len(rest) > limit {
		rest = rest[:limit]
		p.Body.Next = cursor(rest[limit-1])
	}
	p.Body.Items = append(p.Body.Items, rest...)
	return p
}

// How long listings are kept, and how many.
const (
	minCacheTime    = 2 * time.Second
	maxCacheTime    = 30 * time.Second
	cacheTimeFactor = 20 // a listing is kept for this many times the duration of its read
	maxListings     = 4
)

// listingCache holds listings that were read for one page and contain further pages, so that
// walking a list does not read the whole list for each page. A page from a kept listing shows the
// list as of the time when it was read. The last page of a list is always read afresh.
type listingCache struct {
	mu    sync.Mutex
	lists []listing // guarded by mu; the oldest first
}

// listing is the part of a list from some item on.
type listing struct {
	name  string
	items any // a slice of the item type, never modified
}

// listSlice is the part of a list from a position on, with its position in a kept listing.
type listSlice[T any] struct {
	items []T
	name  string // empty: not kept
	from  int
}

// next returns the position after a page, for its cursor.
func (s listSlice[T]) next(limit int) string { return strconv.Itoa(s.from + limit) }

// cacheListing stores the items read since began, if more than one further page follows the next
// one.
func cacheListing[T any](k *listingCache, items []T, limit int, began time.Time) listSlice[T] {
	if len(items) <= 2*limit {
		return listSlice[T]{items: items}
	}
	l := listing{name: rand.Text(), items: items}
	k.mu.Lock()
	defer k.mu.Unlock()
	if len(k.lists) >= maxListings {
		k.lists = slices.Delete(k.lists, 0, 1)
	}
	k.lists = append(k.lists, l)
	time.AfterFunc(min(max(cacheTimeFactor*time.Since(began), minCacheTime), maxCacheTime), func() { k.drop(l.name) })
	return listSlice[T]{items: items, name: l.name}
}

// drop removes a listing.
func (k *listingCache) drop(name string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.lists = slices.DeleteFunc(k.lists, func(l listing) bool { return l.name == name })
}

// cachedListing returns a kept listing from a position on, if more than one page is left there.
func cachedListing[T any](k *listingCache, name, place string, limit int) (s listSlice[T], ok bool) {
	from, _ := strconv.Atoi(place) // cursors are signed, so this does not fail
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, l := range k.lists {
		if items, same := l.items.([]T); same && l.name == name && from+limit < len(items) {
			return listSlice[T]{items: items[from:], name: name, from: from}, true
		}
	}
	return s, false
}

// sortedList is a list ordered by a key.
type sortedList[T any] struct {
	name string // the list and its filter
	all  []T
	key  func(T) string
}

// pageOfSorted returns a page of a list ordered by a key that never changes for an item. An item
// added before the last one shown is not shown. No item is shown twice.
func pageOfSorted[T any](a *API, in Paged, l sortedList[T]) (*page[T], error) {
	all := l.all
	place, err := a.cursors.read(l.name, in.Cursor, 1)
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
	return pageOf(all, in.limit(), func(item T) string { return a.cursors.write(l.name, strconv.Quote(l.key(item))) }), nil
}

// appendedList is a list that grows at its end, or the reverse of one.
type appendedList[T any] struct {
	name  string // the list and its filter
	all   func() ([]T, error)
	match func(T) bool
	id    func(T) string
}

// pageOfAppended returns a page of a list by the last item shown. New items are added at the end,
// so none is skipped and none is shown twice. In a reversed list they come before the first page,
// and a walk does not show them.
func pageOfAppended[T any](a *API, in Paged, l appendedList[T]) (*page[T], error) {
	// Name of a kept listing, position in it, id of the last item shown.
	place, err := a.cursors.read(l.name, in.Cursor, 3)
	if err != nil {
		return nil, err
	}
	limit := in.limit()
	if place != nil {
		if s, ok := cachedListing[T](&a.listings, place[0], place[1], limit); ok {
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
		return nil, goneCursor()
	}
	return l.page(a, cacheListing(&a.listings, rest, limit, began), limit), nil
}

// goneCursor refuses a cursor whose item was removed.
func goneCursor() error {
	return invalid("query.cursor", "the item of this cursor no longer exists; start again without a cursor")
}

// page makes the page at the start of a stretch.
func (l appendedList[T]) page(a *API, s listSlice[T], limit int) *page[T] {
	return pageOf(s.items, limit, func(item T) string { return a.cursors.write(l.name, s.name, s.next(limit), l.id(item)) })
}
