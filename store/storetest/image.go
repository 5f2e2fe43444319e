package storetest

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/store"
)

func imageLaws() []law {
	return []law{
		{"is_unknown_until_put", unknownImage},
		{"keeps_what_was_put", imageFields},
		{"keeps_any_name_and_bytes", hostileImages},
		{"keeps_sessions_apart_and_in_order", imagesApart},
		{"is_put_once", imageTwice},
		{"refuses_what_is_no_image", badImages},
		{"knows_its_blobs", imageBlobs},
		{"has_a_limit", imageLimit},
		{"needs_its_session", imageOrphan},
		{"is_removed", imageRemoved},
		{"goes_with_its_session", imagesGo},
		{"goes_with_its_transaction", imageAndOthers},
		{"gives_out_copies", imageCopies},
		{"survives_reopening", imageSurvives},
	}
}

// newImage returns an image with some bytes.
func (s *subject) newImage(session perdure.SessionID, content string) store.Image {
	sum := sha256.Sum256([]byte(content))
	return store.Image{
		ID: mint[perdure.ImageID](s), Session: session, Filename: "plot.png",
		ContentType: "image/png", SizeBytes: int64(len(content)),
		// the store's clock determines the time
		SHA256: hex.EncodeToString(sum[:]), Metadata: []byte(`{"n":1.50}`), Data: []byte(content), CreatedAt: moment(7),
	}
}

// blobOf returns an image whose bytes are a blob.
func (s *subject) blobOf(session perdure.SessionID, content string) store.Image {
	i := s.newImage(session, content)
	i.Blob, i.Data = true, nil
	return i
}

// putImage puts an image and returns it as stored, with its bytes.
func (s *subject) putImage(i store.Image) store.Image {
	s.Helper()
	s.write(func(tx store.Tx) error {
		put, err := tx.Images().Put(i)
		i.CreatedAt = tx.Now()
		bare := i
		bare.Data = nil
		s.same("put", put, bare)
		return err
	})
	return i
}

// image reads an image.
func (s *subject) image(session perdure.SessionID, id perdure.ImageID) (i store.Image) {
	s.Helper()
	s.read(func(r store.Reader) (err error) {
		i, err = r.Images().Get(session, id)
		return err
	})
	return i
}

// images lists the images of a session.
func (s *subject) images(session perdure.SessionID) (found []store.Image) {
	s.Helper()
	s.read(func(r store.Reader) (err error) {
		found, err = r.Images().List(session)
		return err
	})
	return found
}

// blob reports whether the bytes of an image are a blob that some image needs.
func (s *subject) blob(i store.Image) (has bool) {
	s.Helper()
	s.read(func(r store.Reader) (err error) {
		has, err = r.Images().HasBlob(i.SHA256)
		return err
	})
	return has
}

func (s *subject) noImage(session perdure.SessionID, id perdure.ImageID) {
	s.Helper()
	s.unknown(func(r store.Reader) error { _, err := r.Images().Get(session, id); return err })
}

func unknownImage(s *subject) {
	session := s.session()
	s.noImage(session, mint[perdure.ImageID](s))
	s.same("listed", s.images(session), []store.Image{})
}

func imageFields(s *subject) {
	session := s.session()
	for _, kind := range store.ImageTypes() {
		i := s.newImage(session, "bytes of "+kind)
		i.ContentType, i.Filename = kind, ""

		want := s.putImage(i)

		s.same("image", s.image(session, i.ID), want)
	}
}

func hostileImages(s *subject) {
	session := s.session()
	for n, text := range append(hostile(), strings.Repeat("\x00\xff long", 10_000)) {
		i := s.newImage(session, fmt.Sprint(n, text))
		if len(text) <= store.MaxImageNameBytes {
			i.Filename = text
		}

		want := s.putImage(i)

		s.same("image", s.image(session, i.ID), want)
	}
}

func imagesApart(s *subject) {
	one, other := s.session(), s.session()
	var want []store.Image
	for n := range 3 {
		i := s.putImage(s.newImage(one, fmt.Sprint(n)))
		i.Data = nil
		want = append(want, i)
		s.later(i.CreatedAt)
	}
	foreign := s.putImage(s.newImage(other, "other"))

	s.same("listed", s.images(one), want)
	s.noImage(one, foreign.ID)
	s.noImage("", foreign.ID)
	s.same("of the other", len(s.images(other)), 1)
}

func imageRemoved(s *subject) {
	one, other := s.session(), s.session()
	gone, kept := s.putImage(s.newImage(one, "first")), s.putImage(s.newImage(one, "second"))
	large := s.blobOf(one, "large")
	s.putImage(large)

	s.refused(perdure.NotFound, func(tx store.Tx) error { return tx.Images().Remove(other, gone.ID) })
	s.refused(perdure.NotFound, func(tx store.Tx) error { return tx.Images().Remove("", gone.ID) })
	s.write(func(tx store.Tx) error { return tx.Images().Remove(one, gone.ID) })
	s.write(func(tx store.Tx) error { return tx.Images().Remove(one, large.ID) })
	s.refused(perdure.NotFound, func(tx store.Tx) error { return tx.Images().Remove(one, gone.ID) })

	s.noImage(one, gone.ID)
	s.same("image", s.image(one, kept.ID), kept)
	s.same("listed", len(s.images(one)), 1)
	s.same("needs the blob", s.blob(large), false)
}

func imageTwice(s *subject) {
	one, other := s.session(), s.session()
	want := s.putImage(s.newImage(one, "first"))
	again, theirs := s.newImage(one, "second"), s.newImage(other, "second")
	again.ID, theirs.ID = want.ID, want.ID

	s.refused(perdure.Conflict, func(tx store.Tx) error { _, err := tx.Images().Put(again); return err })
	s.refused(perdure.Conflict, func(tx store.Tx) error { _, err := tx.Images().Put(theirs); return err })

	s.same("image", s.image(one, want.ID), want)
	s.noImage(other, want.ID)
}

func badImages(s *subject) {
	session := s.session()
	for what, change := range map[string]func(*store.Image){
		"no id":               func(i *store.Image) { i.ID = "" },
		"no session":          func(i *store.Image) { i.Session = "" },
		"another type":        func(i *store.Image) { i.ContentType = "image/svg+xml" },
		"a long name":         func(i *store.Image) { i.Filename = strings.Repeat("n", store.MaxImageNameBytes+1) },
		"no metadata":         func(i *store.Image) { i.Metadata = nil },
		"metadata that is no": func(i *store.Image) { i.Metadata = []byte(`[1]`) },
		"null metadata":       func(i *store.Image) { i.Metadata = []byte(`null`) },
		"much metadata": func(i *store.Image) {
			i.Metadata = []byte(`{"a":"` + strings.Repeat("x", store.MaxImageMetaBytes) + `"}`)
		},
		"another size":       func(i *store.Image) { i.SizeBytes++ },
		"another hash":       func(i *store.Image) { i.SHA256 = strings.Repeat("0", 64) },
		"a hash in capitals": func(i *store.Image) { i.SHA256 = strings.ToUpper(i.SHA256) },
		"no hash":            func(i *store.Image) { i.SHA256 = "" },
		"no bytes":           func(i *store.Image) { i.Data, i.SizeBytes = nil, 0 },
		"a blob with bytes":  func(i *store.Image) { i.Blob = true },
		"a blob of nothing":  func(i *store.Image) { i.Blob, i.Data, i.SizeBytes = true, nil, 0 },
	} {
		i := s.newImage(session, "bytes")
		change(&i)
		if err := s.InTx(s.ctx, func(tx store.Tx) error {
			_, err := tx.Images().Put(i)
			return err
		}); !errors.Is(err, perdure.Invalid) {
			s.Errorf("%s: got %v, want %v", what, err, perdure.Invalid)
		}
	}
	large := s.blobOf(session, "bytes")
	large.SizeBytes = store.MaxImageBytes + 1
	s.refused(perdure.Limit, func(tx store.Tx) error { _, err := tx.Images().Put(large); return err })
	s.same("listed", s.images(session), []store.Image{})
}

func imageBlobs(s *subject) {
	one, other := s.session(), s.session()
	small, large := s.newImage(one, "small"), s.blobOf(one, "large")
	s.same("before", s.blob(large), false)

	s.putImage(small)
	want := s.putImage(large)
	s.putImage(s.blobOf(other, "large"))

	s.same("image", s.image(one, large.ID), want)
	s.same("of an image in its row", s.blob(small), false)
	s.same("of a blob", s.blob(large), true)
	s.endWork(one)
	s.remove(one)
	s.same("while another session has it", s.blob(large), true)
	s.endWork(other)
	s.remove(other)
	s.same("after the last went", s.blob(large), false)
}

func imageLimit(s *subject) {
	one, other := s.session(), s.session()
	s.write(func(tx store.Tx) error {
		for range store.MaxImages {
			if _, err := tx.Images().Put(s.newImage(one, "bytes")); err != nil {
				return err
			}
		}
		return nil
	})

	s.refused(perdure.Limit, func(tx store.Tx) error { _, err := tx.Images().Put(s.newImage(one, "bytes")); return err })

	s.same("listed", len(s.images(one)), store.MaxImages)
	s.putImage(s.newImage(other, "bytes"))
}

func imageOrphan(s *subject) {
	i := s.newImage(mint[perdure.SessionID](s), "bytes")
	s.refused(perdure.NotFound, func(tx store.Tx) error { _, err := tx.Images().Put(i); return err })
	s.noImage(i.Session, i.ID)
}

func imagesGo(s *subject) {
	one, other := s.session(), s.session()
	mine, theirs := s.putImage(s.newImage(one, "bytes")), s.putImage(s.newImage(other, "bytes"))

	s.endWork(one)
	s.remove(one)

	s.noImage(one, mine.ID)
	s.same("of another session", s.image(other, theirs.ID), theirs)
}

func imageAndOthers(s *subject) {
	session := s.session()
	i := s.newImage(session, "bytes")

	s.refused(perdure.Lost, func(tx store.Tx) error {
		if _, err := tx.Images().Put(i); err != nil {
			return err
		}
		if _, err := tx.Images().Get(session, i.ID); err != nil {
			s.Errorf("in its transaction: %v", err)
		}
		return perdure.Lost
	})

	s.noImage(session, i.ID)
}

func imageCopies(s *subject) {
	session := s.session()
	given := s.newImage(session, "bytes")
	want := given
	want.Data, want.Metadata = bytes.Clone(given.Data), bytes.Clone(given.Metadata)
	s.write(func(tx store.Tx) error {
		put, err := tx.Images().Put(given)
		scribble(put)
		return err
	})
	scribble(given, s.image(session, given.ID), s.images(session))

	got := s.image(session, given.ID)
	want.CreatedAt = got.CreatedAt
	s.same("image", got, want)
}

func imageSurvives(s *subject) {
	session := s.session()
	small, large := s.putImage(s.newImage(session, "bytes \x00\xff")), s.putImage(s.blobOf(session, "large"))

	s.reopen()

	s.same("image", s.image(session, small.ID), small)
	s.same("blob", s.image(session, large.ID), large)
}

// lookAtImages reads the images of the things, one of them with its bytes, and whether the new
// one's blob is known.
func (w things) lookAtImages(r store.Reader) (found []store.Image, blob bool, err error) {
	found, err = r.Images().List(w.session)
	whole, wholeErr := r.Images().Get(w.session, w.picture.ID)
	blob, blobErr := r.Images().HasBlob(w.freshPicture.SHA256)
	return append(found, whole), blob, errors.Join(err, wholeErr, blobErr)
}
