package sessionport_test

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/internal/blob"
	"github.com/perdure/perdure/internal/sessionport"
	"github.com/perdure/perdure/store"
	"github.com/perdure/perdure/store/faulty"
	"github.com/perdure/perdure/store/memory"
	"github.com/perdure/perdure/tool"
)

const gallery = perdure.SessionID("session_00000000000000000000000000000001")

// hang opens a store with a session and a directory for blobs.
func hang(t *testing.T) (st store.Store, blobs *blob.Store, dir string) {
	t.Helper()
	st, dir = memory.New(memory.Config{}), t.TempDir()
	addSession(t, st, store.Session{ID: gallery, Status: perdure.SessionStarted})
	blobs, err := blob.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = blobs.Close() })
	return st, blobs, dir
}

func addSession(t *testing.T, st store.Store, s store.Session) {
	t.Helper()
	if err := st.InTx(t.Context(), func(tx store.Tx) error { return tx.Sessions().Create(s) }); err != nil {
		t.Fatal(err)
	}
}

func imagesOf(st store.Store, blobs *blob.Store, session perdure.SessionID) tool.Images {
	return sessionport.New(sessionport.Config{Store: st, Blobs: blobs})(session, tool.Call{Session: session}).Images
}

// png is an image of a size that starts like a PNG.
func png(size int) []byte {
	return append([]byte("\x89PNG\r\n\x1a\n"), bytes.Repeat([]byte{7}, size-8)...)
}

// blobFiles are the files of blobs.
func blobFiles(t *testing.T, dir string) []string {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(dir, "blobs", "??", "*"))
	if err != nil {
		t.Fatal(err)
	}
	return found
}

func TestImages(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		size  int
		blobs bool
		files int
	}{
		"small":                {1000, true, 0},
		"at_the_border":        {store.MaxInlineImageBytes, true, 0},
		"large":                {store.MaxInlineImageBytes + 1, true, 1},
		"large_with_no_folder": {store.MaxInlineImageBytes + 1, false, 0},
		"largest":              {store.MaxImageBytes, true, 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			st, blobs, dir := hang(t)
			if !c.blobs {
				blobs = nil
			}
			own := imagesOf(st, blobs, gallery)
			content := png(c.size)

			made, err := own.Create(t.Context(), tool.ImageWrite{Filename: "a.png", Data: content, Metadata: []byte(`{"a":1}`)})
			if err != nil {
				t.Fatal(err)
			}

			if made.ID == "" || made.ContentType != "image/png" || made.SizeBytes != int64(c.size) || string(made.Metadata) != `{"a":1}` || made.CreatedAt.IsZero() {
				t.Errorf("made %+v", made)
			}
			got, err := own.Image(t.Context(), made.ID)
			if err != nil || !bytes.Equal(got.Data, content) || got.Filename != "a.png" {
				t.Errorf("got %d bytes of %+v, %v", len(got.Data), got.ImageStat, err)
			}
			resolved, ok, err := own.Resolve(t.Context(), made.ID)
			if err != nil || !ok || !strings.HasPrefix(resolved.URL(), "data:image/png;base64,iVBORw0KGgo") {
				t.Errorf("got %.60s, %v, %v", resolved.URL(), ok, err)
			}
			if files := blobFiles(t, dir); len(files) != c.files {
				t.Errorf("got the blobs %v, want %d", files, c.files)
			}
		})
	}
}

func TestImageTypesAreSniffed(t *testing.T) {
	t.Parallel()
	st, blobs, _ := hang(t)
	own := imagesOf(st, blobs, gallery)
	for kind, head := range map[string]string{
		"image/png": "\x89PNG\r\n\x1a\n", "image/jpeg": "\xff\xd8\xff\xe0", "image/gif": "GIF89a", "image/webp": "RIFF\x00\x00\x00\x00WEBPVP8 ",
	} {
		made, err := own.Create(t.Context(), tool.ImageWrite{Filename: "x.html", Data: []byte(head + "rest")})
		if err != nil || made.ContentType != kind || string(made.Metadata) != "{}" {
			t.Errorf("%s: got %+v, %v", kind, made, err)
		}
	}
	for _, content := range []string{"", "words", "<svg xmlns='http://www.w3.org/2000/svg'/>", "<html>", "%PDF-1.7", "BM6\x00\x00\x00", "\x00\x00\x01\x00"} {
		if _, err := own.Create(t.Context(), tool.ImageWrite{Filename: "a.png", Data: []byte(content)}); !errors.Is(err, perdure.Invalid) {
			t.Errorf("%q: got %v", content, err)
		}
	}
	if _, err := own.Create(t.Context(), tool.ImageWrite{Data: png(store.MaxImageBytes + 1)}); !errors.Is(err, perdure.Limit) {
		t.Errorf("got %v of an image that is too large", err)
	}
	if _, err := own.Create(t.Context(), tool.ImageWrite{Data: png(10), Metadata: []byte(`[]`)}); !errors.Is(err, perdure.Invalid) {
		t.Errorf("got %v of metadata that is none", err)
	}
}

// TestImagesOfOthers: an image belongs to its session, and to sessions that were forked from it.
func TestImagesOfOthers(t *testing.T) {
	t.Parallel()
	st, blobs, _ := hang(t)
	stranger, fork := perdure.SessionID("session_00000000000000000000000000000002"), perdure.SessionID("session_00000000000000000000000000000003")
	addSession(t, st, store.Session{ID: stranger, Status: perdure.SessionStarted})
	addSession(t, st, store.Session{ID: fork, Forked: gallery, Status: perdure.SessionStarted})
	made, err := imagesOf(st, blobs, gallery).Create(t.Context(), tool.ImageWrite{Data: png(100)})
	if err != nil {
		t.Fatal(err)
	}

	if _, err := imagesOf(st, blobs, stranger).Image(t.Context(), made.ID); !errors.Is(err, perdure.NotFound) {
		t.Errorf("a stranger got %v", err)
	}
	if _, ok, err := imagesOf(st, blobs, stranger).Resolve(t.Context(), made.ID); ok || err != nil {
		t.Errorf("a stranger got %v, %v", ok, err)
	}
	if _, err := imagesOf(st, blobs, fork).ImageStat(t.Context(), made.ID); err != nil {
		t.Errorf("a fork got %v", err)
	}
	if _, ok, err := imagesOf(st, blobs, gallery).Resolve(t.Context(), "image_none"); ok || err != nil {
		t.Errorf("got %v, %v", ok, err)
	}
}

// TestImageDies crashes the creation of a large image at its commit: either the complete image
// exists, or only bytes remain that no row names, which are removed when they are old.
func TestImageDies(t *testing.T) {
	t.Parallel()
	for act, want := range map[faulty.Act]int{faulty.Die: 1, faulty.Fail: 1, faulty.DieAfter: 0, faulty.DoAndTimeout: 0} {
		st, blobs, dir := hang(t)
		broken := faulty.New(st, faulty.Nth("InTx", 1, faulty.Fault{Act: act}))

		_, err := imagesOf(broken, blobs, gallery).Create(t.Context(), tool.ImageWrite{Data: png(store.MaxInlineImageBytes + 1)})

		if err == nil {
			t.Fatal("it did not die")
		}
		ageBlobs(t, dir)
		removed, err := sessionport.CollectBlobs(t.Context(), st, blobs, time.Now().Add(-time.Hour))
		if err != nil || removed != want {
			t.Errorf("act %d: removed %d blobs, %v, want %d", act, removed, err, want)
		}
	}
}

// TestCollectBlobs: blobs that are named or new stay.
func TestCollectBlobs(t *testing.T) {
	t.Parallel()
	st, blobs, dir := hang(t)
	made, err := imagesOf(st, blobs, gallery).Create(t.Context(), tool.ImageWrite{Data: png(store.MaxInlineImageBytes + 1)})
	if err != nil {
		t.Fatal(err)
	}
	orphan, err := blobs.Put(png(500))
	if err != nil {
		t.Fatal(err)
	}
	collect := func() int {
		n, err := sessionport.CollectBlobs(t.Context(), st, blobs, time.Now().Add(-time.Hour))
		if err != nil {
			t.Fatal(err)
		}
		return n
	}

	if n := collect(); n != 0 {
		t.Errorf("%d new blobs were removed", n)
	}
	ageBlobs(t, dir)
	if n := collect(); n != 1 {
		t.Errorf("%d blobs were removed, want 1", n)
	}
	if _, err := blobs.Get(orphan); !errors.Is(err, perdure.NotFound) {
		t.Errorf("got %v", err)
	}
	if _, ok, err := imagesOf(st, blobs, gallery).Resolve(t.Context(), made.ID); !ok || err != nil {
		t.Errorf("the image is gone: %v", err)
	}

	if err := st.InTx(t.Context(), func(tx store.Tx) error { return tx.Sessions().Remove(gallery) }); err != nil {
		t.Fatal(err)
	}
	if n := collect(); n != 1 || len(blobFiles(t, dir)) != 0 {
		t.Errorf("%d blobs were removed with the session, and %v are left", n, blobFiles(t, dir))
	}
}

// TestImageLosesItsBytes: for a model an image whose blob is gone is missing; a damaged blob is an
// error.
func TestImageLosesItsBytes(t *testing.T) {
	t.Parallel()
	st, blobs, dir := hang(t)
	own := imagesOf(st, blobs, gallery)
	made, err := own.Create(t.Context(), tool.ImageWrite{Data: png(store.MaxInlineImageBytes + 1)})
	if err != nil {
		t.Fatal(err)
	}
	file := blobFiles(t, dir)[0]

	if err := os.WriteFile(file, png(store.MaxInlineImageBytes+2), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, ok, err := own.Resolve(t.Context(), made.ID); ok || !errors.Is(err, perdure.Storage) {
		t.Errorf("damaged: got %v, %v", ok, err)
	}
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	if _, ok, err := own.Resolve(t.Context(), made.ID); ok || err != nil {
		t.Errorf("gone: got %v, %v", ok, err)
	}
	if _, _, err := imagesOf(st, nil, gallery).Resolve(t.Context(), made.ID); !errors.Is(err, perdure.Unavailable) {
		t.Errorf("without the folder: got %v", err)
	}
}

func ageBlobs(t *testing.T, dir string) {
	t.Helper()
	old := time.Now().Add(-2 * time.Hour)
	for _, file := range blobFiles(t, dir) {
		if err := os.Chtimes(file, old, old); err != nil {
			t.Fatal(err)
		}
	}
}
