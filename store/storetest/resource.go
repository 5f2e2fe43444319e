package storetest

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/store"
)

func resourceLaws() []law {
	return []law{
		{"keeps_every_field", resourceFields},
		{"keeps_hostile_text", hostileResources},
		{"is_unknown_until_put", unknownResource},
		{"put_again_keeps_place_and_beginning", putResourceAgain},
		{"lists_by_filter_in_order", listResources},
		{"says_whether_it_was_there", removeResource},
		{"refuses_what_is_no_entry", resourceThatIsNone},
		{"has_one_entry_an_id", resourceRace},
		{"goes_with_its_transaction", resourceAndFail},
		{"goes_with_its_session", resourceGoes},
		{"gives_out_copies", resourceCopies},
		{"survives_reopening", resourceSurvives},
	}
}

// newResource returns an entry with every field set.
func (s *subject) newResource(session perdure.SessionID) store.Resource {
	r := store.Resource{Session: session, Resource: filled[perdure.Resource]()}
	r.ID, r.Status = fmt.Sprintf("box %d", s.minted.Add(1)), perdure.ResourceActive
	return r
}

// register puts an entry and returns it as stored.
func (s *subject) register(r store.Resource) store.Resource {
	s.Helper()
	s.write(func(tx store.Tx) (err error) {
		put, err := tx.Resources().Put(r)
		s.checkMade(put.UpdatedAt, tx.Now())
		r.Resource = put
		return err
	})
	return r
}

func (s *subject) checkMade(got, want time.Time) {
	s.Helper()
	if !sameMoment(got, want) {
		s.Errorf("got moment %s, want %s", got, want)
	}
}

// resources returns a list.
func (s *subject) resources(filter store.ResourceFilter) (found []store.Resource) {
	s.Helper()
	s.read(func(r store.Reader) (err error) {
		found, err = r.Resources().List(filter)
		return err
	})
	return found
}

// resource returns an entry.
func (s *subject) resource(of store.Resource) store.Resource {
	s.Helper()
	s.read(func(r store.Reader) (err error) {
		of.Resource, err = r.Resources().Get(of.Session, of.ID)
		return err
	})
	return of
}

func resourceFields(s *subject) {
	given := s.newResource(s.session())
	least := store.Resource{Session: given.Session, Resource: perdure.Resource{ID: "x", Status: perdure.ResourceFailed}}
	for _, r := range []store.Resource{given, least} {
		want := s.register(r)

		s.same("moments", want.CreatedAt, want.UpdatedAt)
		want.CreatedAt, want.UpdatedAt = r.CreatedAt, r.UpdatedAt
		s.same("answer", want, r)
		want = s.resource(r)
		s.same("list", s.resources(store.ResourceFilter{Session: r.Session, ID: r.ID}), []store.Resource{want})
		want.CreatedAt, want.UpdatedAt = r.CreatedAt, r.UpdatedAt
		s.same("entry", want, r)
	}
}

func hostileResources(s *subject) {
	session := s.session()
	for _, words := range hostile() {
		r := s.newResource(session)
		r.ID, r.Kind, r.Name, r.Metadata = "id"+words, words, words, []byte(words)
		if words == "" {
			r.Metadata = nil
		}

		want := s.register(r)

		s.same("entry", s.resource(r), want)
		s.same("bytes", []string{want.ID, want.Kind, want.Name, string(want.Metadata)},
			[]string{r.ID, words, words, words})
		if words != "" {
			s.same("list", s.resources(store.ResourceFilter{Kind: words}), []store.Resource{want})
		}
	}
}

func unknownResource(s *subject) {
	known := s.register(s.newResource(s.session()))
	for _, of := range []store.Resource{
		{Session: known.Session}, {Session: s.session(), Resource: known.Resource}, {Resource: known.Resource},
		{Session: known.Session, Resource: perdure.Resource{ID: known.ID + " "}},
		{Session: known.Session, Resource: perdure.Resource{ID: strings.ToUpper(known.ID)}},
	} {
		s.unknown(func(r store.Reader) error { _, err := r.Resources().Get(of.Session, of.ID); return err })
	}
}

func putResourceAgain(s *subject) {
	session := s.session()
	first := s.register(s.newResource(session))
	second := s.register(s.newResource(session))
	s.later(second.UpdatedAt)
	changed := first
	changed.Kind, changed.Name, changed.Status, changed.Metadata, changed.Task = "other", "", perdure.ResourceReleased,
		nil, ""

	got := s.register(changed)

	if !got.UpdatedAt.After(first.UpdatedAt) {
		s.Errorf("got %s, want a later moment than %s", got.UpdatedAt, first.UpdatedAt)
	}
	changed.UpdatedAt = got.UpdatedAt
	s.same("list", s.resources(store.ResourceFilter{Session: session}), []store.Resource{changed, second})
}

func listResources(s *subject) {
	session, other := s.session(), s.session()
	var all []store.Resource
	for i := range 12 {
		r := s.newResource([]perdure.SessionID{session, other}[i/6])
		// the ids sort in the opposite order
		r.ID, r.Kind = fmt.Sprintf("id %d", 100-i), []string{"box", "browser"}[i%2]
		r.Status = []perdure.ResourceStatus{perdure.ResourceActive, perdure.ResourceFailed,
			perdure.ResourceReleased}[i%3]
		all = append(all, s.register(r))
	}
	same := all[0]
	same.Session = other
	all = append(all, s.register(same))
	for _, filter := range []store.ResourceFilter{
		{}, {Session: session}, {Session: other}, {Session: "nobody"}, {Kind: "box"}, {Kind: "bo"}, {ID: all[0].ID},
		{ID: all[3].ID, Session: session},
		{ID: all[3].ID, Session: other}, {Status: perdure.ResourceFailed},
		{Session: other, Kind: "browser", Status: perdure.ResourceActive},
	} {
		var want []store.Resource
		for _, r := range all {
			if filter.Matches(r) {
				want = append(want, r)
			}
		}

		s.same(fmt.Sprintf("%+v", filter), s.resources(filter), want)
	}
}

func removeResource(s *subject) {
	gone, stays := s.register(s.newResource(s.session())), s.register(s.newResource(s.session()))
	for _, want := range []bool{true, false} {
		s.write(func(tx store.Tx) error {
			there, err := tx.Resources().Remove(gone.Session, gone.ID)
			s.same("whether it was there", there, want)
			return err
		})
	}

	s.same("what is left", s.resources(store.ResourceFilter{}), []store.Resource{stays})
}

func resourceThatIsNone(s *subject) {
	good := s.newResource(s.session())
	for _, spoil := range []func(*store.Resource){
		func(r *store.Resource) {
			r.ID = ""
		}, func(r *store.Resource) { r.ID = strings.Repeat("x", store.MaxResourceIDBytes+1) },
		func(r *store.Resource) {
			r.Session = ""
		}, func(r *store.Resource) { r.Status = "" }, func(r *store.Resource) { r.Status = "gone" },
	} {
		bad := good
		spoil(&bad)
		s.refused(perdure.Invalid, func(tx store.Tx) error { _, err := tx.Resources().Put(bad); return err })
	}
	good.ID = strings.Repeat("x", store.MaxResourceIDBytes)
	s.register(good)
}

func resourceRace(s *subject) {
	r := s.newResource(s.session())
	s.together(nParallel, func(int) error {
		return s.InTx(s.ctx, func(tx store.Tx) error { _, err := tx.Resources().Put(r); return err })
	})
	s.together(nParallel, func(i int) error {
		other := r
		other.ID = fmt.Sprintf("other %d", i)
		return s.InTx(s.ctx, func(tx store.Tx) error { _, err := tx.Resources().Put(other); return err })
	})

	if n := len(s.resources(store.ResourceFilter{})); n != 1+nParallel {
		s.Errorf("got %d entries, want %d", n, 1+nParallel)
	}
}

func resourceAndFail(s *subject) {
	old := s.register(s.newResource(s.session()))
	fresh, changed := s.newResource(old.Session), old
	changed.Status = perdure.ResourceReleased

	s.refused(errOnPurpose, func(tx store.Tx) error {
		_, err := tx.Resources().Put(fresh)
		_, err2 := tx.Resources().Put(changed)
		return errors.Join(err, err2, errOnPurpose)
	})
	s.refused(errOnPurpose, func(tx store.Tx) error {
		_, err := tx.Resources().Remove(old.Session, old.ID)
		return errors.Join(err, errOnPurpose)
	})

	s.same("list", s.resources(store.ResourceFilter{}), []store.Resource{old})
}

func resourceGoes(s *subject) {
	gone, stays := s.register(s.newResource(s.session())), s.register(s.newResource(s.session()))

	s.remove(gone.Session)

	s.same("what is left", s.resources(store.ResourceFilter{}), []store.Resource{stays})
}

func resourceCopies(s *subject) {
	given, want := s.newResource(s.session()), filled[perdure.Resource]() // equal, but without shared memory
	put := s.register(given)
	want.ID, want.Status, want.CreatedAt, want.UpdatedAt = given.ID, given.Status, put.CreatedAt, put.UpdatedAt

	scribble(&given, &put)
	for _, r := range s.resources(store.ResourceFilter{}) {
		scribble(&r)
	}

	found := s.resources(store.ResourceFilter{})
	if len(found) != 1 {
		s.Fatalf("got %d entries, want one", len(found))
	}
	s.same("entry", found[0].Resource, want)
}

func resourceSurvives(s *subject) {
	session := s.session()
	first, second := s.register(s.newResource(session)), s.register(s.newResource(session))

	s.reopen()

	third := s.register(s.newResource(session))
	s.same("list", s.resources(store.ResourceFilter{}), []store.Resource{first, second, third})
}
