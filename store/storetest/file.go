package storetest

import (
	"slices"
	"strings"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/store"
)

func fileLaws() []law {
	return []law{
		{"keeps_what_was_written", fileFields},
		{"keeps_any_content", fileContents},
		{"keeps_any_name", fileNames},
		{"has_a_root_directory", rootDirectory},
		{"is_unknown_until_written", unknownFile},
		{"replaces_the_whole_file", replaceFile},
		{"makes_missing_parents", makeParents},
		{"leaves_a_directory_as_it_is", directoryAgain},
		{"refuses_a_directory_in_the_place_of_a_file", fileConflicts},
		{"refuses_a_path_that_is_not_absolute", relativePaths},
		{"tells_an_empty_directory_from_a_missing_one", emptyDirectory},
		{"lists_a_directory_sorted_by_path", listDirectory},
		{"removes_with_all_below", removeFiles},
		{"empties_the_root", removeRoot},
		{"keeps_files_of_sessions_apart", filesOfSessions},
		{"adds_up_what_files_hold", fileBytes},
		{"gives_out_copies", fileCopies},
		{"survives_reopening", fileSurvives},
	}
}

// put writes a file, or a directory if the path ends with a slash, and reports whether it is new.
func (s *subject) put(session perdure.SessionID, path, content string) (created bool) {
	s.Helper()
	f := store.File{Path: path, Content: []byte(content), Encoding: store.EncodingText}
	if dir, ok := strings.CutSuffix(path, "/"); ok {
		f = store.File{Path: dir, Directory: true}
	}
	s.write(func(tx store.Tx) (err error) {
		created, err = tx.Files().Put(session, f)
		return err
	})
	return created
}

// file returns the entry at a path.
func (s *subject) file(session perdure.SessionID, path string) (f store.File) {
	s.Helper()
	s.read(func(r store.Reader) (err error) {
		f, err = r.Files().Get(session, path)
		return err
	})
	return f
}

// paths lists a directory. Directories end with a slash.
func (s *subject) paths(session perdure.SessionID, dir string, deep bool) (paths []string) {
	s.Helper()
	s.read(func(r store.Reader) error {
		files, err := r.Files().List(session, dir, deep)
		for _, f := range files {
			if f.Directory {
				f.Path += "/"
			}
			paths = append(paths, f.Path)
		}
		return err
	})
	return paths
}

// rm removes the entry at a path, and reports whether it existed.
func (s *subject) rm(session perdure.SessionID, path string) (removed bool) {
	s.Helper()
	s.write(func(tx store.Tx) (err error) {
		removed, err = tx.Files().Remove(session, path)
		return err
	})
	return removed
}

func fileFields(s *subject) {
	session := s.session()
	for _, want := range []store.File{
		{Path: "/text", Content: []byte("words"), Encoding: store.EncodingText},
		{Path: "/bytes", Content: []byte{0, 1, 2}, Encoding: store.EncodingBase64, ReadOnly: true},
		{Path: "/dir", Directory: true},
		{Path: "/closed", Directory: true, ReadOnly: true},
	} {
		given := want
		given.SizeBytes, given.CreatedAt, given.UpdatedAt = 99, moment(1), moment(2) // not set by the caller
		want.SizeBytes = int64(len(want.Content))
		s.write(func(tx store.Tx) error {
			want.CreatedAt, want.UpdatedAt = tx.Now(), tx.Now()
			created, err := tx.Files().Put(session, given)
			s.same("created", created, true)
			return err
		})

		s.same("file", s.file(session, want.Path), want)
		s.read(func(r store.Reader) error {
			files, err := r.Files().List(session, "/", false)
			want.Content = nil
			i := slices.IndexFunc(files, func(f store.File) bool { return f.Path == want.Path })
			s.same("listed", files[i], want)
			return err
		})
	}
}

func fileContents(s *subject) {
	session := s.session()
	for _, content := range append(hostile(), strings.Repeat("\x00\xff long", 100_000)) {
		s.put(session, "/file", content)

		got := s.file(session, "/file")
		if string(got.Content) != content || got.SizeBytes != int64(len(content)) || got.Directory {
			s.Errorf("%.20q of %d bytes was read back as %.20q of %d", content, len(content), got.Content,
				got.SizeBytes)
		}
	}
}

func fileNames(s *subject) {
	session := s.session()
	names := []string{
		"/100%", "/100x", "/a_c", "/abc", "/it's", `/"quoted"`, "/A", "/a", "/ä", "/a\u0308", "/Ä", "/日本語 🙂",
		"/ leading", "/a.", "/a-b", "/a0",
		"/\xff\xfe", "/" + strings.Repeat("long", 60), "/?", "/*", "/$1", "/a/b_%'/c",
	}
	for _, name := range names[:len(names)-1] {
		if name != "/a" { // the last path is that of a directory
			s.same("created "+name, s.put(session, name, "content of "+name), true)
		}
	}
	s.put(session, names[len(names)-1], "content of /a/b_%'/c")

	for _, name := range names {
		if name != "/a" {
			s.same("content", string(s.file(session, name).Content), "content of "+name)
		}
	}
	s.same("below /a", s.paths(session, "/a", true), []string{"/a/b_%'/", "/a/b_%'/c"})
	s.same("number of files", len(s.paths(session, "/", false)), len(names)-1)
	s.same("removed", s.rm(session, "/a"), true)
	s.same("number of files after", len(s.paths(session, "/", false)), len(names)-2)
}

func rootDirectory(s *subject) {
	session := s.session()
	root := s.file(session, "/")
	s.same("root", []any{root.Path, root.Directory, len(root.Content)}, []any{"/", true, 0})
	s.same("listed", s.paths(session, "/", true), []string{})

	s.write(func(tx store.Tx) error {
		created, err := tx.Files().Put(session, store.File{Path: "/", Directory: true})
		s.same("created", created, false)
		return err
	})
	s.refused(perdure.Conflict, func(tx store.Tx) error {
		_, err := tx.Files().Put(session, store.File{Path: "/"})
		return err
	})

	s.put(session, "/file", "")
	s.same("listed with a file", s.paths(session, "/", true), []string{"/file"})
}

func unknownFile(s *subject) {
	session := s.session()
	s.put(session, "/dir/file", "words")
	for _, path := range []string{"/other", "/dir/other", "/dir/file/below", "/dirx", "/di", "/Dir", "/dir/File"} {
		s.unknown(func(r store.Reader) error { _, err := r.Files().Get(session, path); return err })
		s.unknown(func(r store.Reader) error { _, err := r.Files().List(session, path, false); return err })
		s.unknown(func(r store.Reader) error { _, err := r.Files().List(session, path, true); return err })
		s.same("removed", s.rm(session, path), false)
	}
	s.unknown(func(r store.Reader) error { _, err := r.Files().List(session, "/dir/file", false); return err })
	s.same("listed", s.paths(session, "/", true), []string{"/dir/", "/dir/file"})
}

func replaceFile(s *subject) {
	session := s.session()
	s.write(func(tx store.Tx) error {
		_, err := tx.Files().Put(session, store.File{Path: "/file", Content: []byte("a long text"),
			Encoding: store.EncodingText, ReadOnly: true})
		return err
	})
	want := s.file(session, "/file")
	want.Content, want.SizeBytes, want.Encoding, want.ReadOnly = []byte{0}, 1, store.EncodingBase64, false

	s.write(func(tx store.Tx) error {
		want.UpdatedAt = tx.Now()
		created, err := tx.Files().Put(session, store.File{Path: "/file", Content: []byte{0},
			Encoding: store.EncodingBase64})
		s.same("created", created, false)
		return err
	})

	s.same("file", s.file(session, "/file"), want)
}

func makeParents(s *subject) {
	session := s.session()

	s.same("created", s.put(session, "/a/b/c/file", "words"), true)
	s.same("created", s.put(session, "/a/b/d/", ""), true)
	s.same("created", s.put(session, "/a/b/c/other", "words"), true)

	s.same("listed", s.paths(session, "/", true), []string{"/a/", "/a/b/", "/a/b/c/", "/a/b/c/file", "/a/b/c/other",
		"/a/b/d/"})
	for _, dir := range []string{"/a", "/a/b", "/a/b/c"} {
		f := s.file(session, dir)
		s.same("directory", []any{f.Path, f.Directory, f.ReadOnly, f.SizeBytes, f.CreatedAt.IsZero()},
			[]any{dir, true, false, int64(0), false})
	}
}

func directoryAgain(s *subject) {
	session := s.session()
	s.put(session, "/dir/file", "words")
	want := s.file(session, "/dir")

	s.write(func(tx store.Tx) error {
		created, err := tx.Files().Put(session, store.File{Path: "/dir", Directory: true, ReadOnly: true})
		s.same("created", created, false)
		return err
	})

	s.same("directory", s.file(session, "/dir"), want)
	s.same("listed", s.paths(session, "/dir", true), []string{"/dir/file"})
}

func fileConflicts(s *subject) {
	session := s.session()
	s.put(session, "/dir/file", "words")
	for _, f := range []store.File{
		{Path: "/dir"}, {Path: "/dir/file", Directory: true}, {Path: "/dir/file/below"}, {Path: "/dir/file/below/deep"},
		{Path: "/dir/file/below", Directory: true},
	} {
		s.refused(perdure.Conflict, func(tx store.Tx) error { _, err := tx.Files().Put(session, f); return err })

		s.write(func(tx store.Tx) error { // a transaction may continue after it
			_, _ = tx.Files().Put(session, f)
			return nil
		})
	}
	s.same("listed", s.paths(session, "/", true), []string{"/dir/", "/dir/file"})
	s.same("content", string(s.file(session, "/dir/file").Content), "words")
}

// An empty path must not mean all files, nor have endless parents.
func relativePaths(s *subject) {
	session := s.session()
	s.put(session, "/dir/file", "words")
	for _, path := range []string{"", ".", "dir", "dir/file", "./dir"} {
		s.refused(perdure.Invalid, func(tx store.Tx) error { _, err := tx.Files().Remove(session, path); return err })
		s.refused(perdure.Invalid, func(tx store.Tx) error {
			_, err := tx.Files().Put(session, store.File{Path: path})
			return err
		})
		s.unknown(func(r store.Reader) error { _, err := r.Files().Get(session, path); return err })
		s.unknown(func(r store.Reader) error { _, err := r.Files().List(session, path, true); return err })
	}
	s.same("listed", s.paths(session, "/", true), []string{"/dir/", "/dir/file"})
}

func emptyDirectory(s *subject) {
	session := s.session()
	s.put(session, "/dir/", "")

	s.same("listed", s.paths(session, "/dir", false), []string{})
	s.same("listed deep", s.paths(session, "/dir", true), []string{})
	s.unknown(func(r store.Reader) error { _, err := r.Files().List(session, "/missing", false); return err })

	s.put(session, "/dir/file", "words")
	s.rm(session, "/dir/file")
	s.same("listed after the last went", s.paths(session, "/dir", false), []string{})
}

func listDirectory(s *subject) {
	session := s.session()
	for _, path := range []string{"/b", "/a/z", "/a/b/c", "/a-", "/a0", "/B", "/a/é", "/aa/x", "/a/%"} {
		s.put(session, path, "words")
	}

	s.same("root", s.paths(session, "/", false), []string{"/B", "/a/", "/a-", "/a0", "/aa/", "/b"})
	s.same("directory", s.paths(session, "/a", false), []string{"/a/%", "/a/b/", "/a/z", "/a/é"})
	s.same("directory and below", s.paths(session, "/a", true), []string{"/a/%", "/a/b/", "/a/b/c", "/a/z", "/a/é"})
	s.same("root and below", s.paths(session, "/", true), []string{
		"/B", "/a/", "/a-", "/a/%", "/a/b/", "/a/b/c", "/a/z", "/a/é", "/a0", "/aa/", "/aa/x", "/b",
	})
}

func removeFiles(s *subject) {
	session := s.session()
	for _, path := range []string{"/a/b/c", "/a/b/d", "/a/e", "/a-", "/a0", "/ab", "/a_", "/a%"} {
		s.put(session, path, "words")
	}

	s.same("removed a file", s.rm(session, "/a/b/d"), true)
	s.same("listed", s.paths(session, "/a", true), []string{"/a/b/", "/a/b/c", "/a/e"})
	s.same("removed it again", s.rm(session, "/a/b/d"), false)

	s.same("removed a directory", s.rm(session, "/a"), true)
	s.same("listed", s.paths(session, "/", true), []string{"/a%", "/a-", "/a0", "/a_", "/ab"})
	s.unknown(func(r store.Reader) error { _, err := r.Files().Get(session, "/a/b/c"); return err })
	s.same("created in its place", s.put(session, "/a", "a file now"), true)
}

func removeRoot(s *subject) {
	session, other := s.session(), s.session()
	s.put(session, "/a/b", "words")
	s.put(other, "/a/b", "words")

	s.same("removed", s.rm(session, "/"), true)
	s.same("removed again", s.rm(session, "/"), false)

	s.same("listed", s.paths(session, "/", true), []string{})
	s.same("listed of another", s.paths(other, "/", true), []string{"/a/", "/a/b"})
}

func filesOfSessions(s *subject) {
	one, other := s.session(), s.session()
	s.put(one, "/dir/file", "one")
	s.put(other, "/dir", "other")

	s.same("content", string(s.file(one, "/dir/file").Content), "one")
	s.same("content", string(s.file(other, "/dir").Content), "other")
	s.rm(other, "/dir")
	s.same("listed", s.paths(one, "/", true), []string{"/dir/", "/dir/file"})
}

// The quota of a session is checked in the commit that writes (FI6), so a transaction sees its own
// writes.
func fileBytes(s *subject) {
	session, other := s.session(), s.session()
	total := func(r store.Reader, want int64) error {
		got, err := r.Files().TotalBytes(session)
		s.same("bytes", got, want)
		return err
	}
	s.read(func(r store.Reader) error { return total(r, 0) })

	s.put(other, "/a", "of another session")
	s.put(session, "/a", "12345")
	s.put(session, "/dir/deep/b", "\x00\xff")
	s.put(session, "/empty", "")
	s.write(func(tx store.Tx) error {
		if err := total(tx.Reader(), 7); err != nil {
			return err
		}
		if _, err := tx.Files().Put(session, store.File{Path: "/a", Content: []byte("123")}); err != nil {
			return err
		}
		return total(tx.Reader(), 5)
	})
	s.read(func(r store.Reader) error { return total(r, 5) })

	s.rm(session, "/dir")
	s.read(func(r store.Reader) error { return total(r, 3) })
	s.rm(session, "/")
	s.read(func(r store.Reader) error { return total(r, 0) })
}

func fileCopies(s *subject) {
	session := s.session()
	given := store.File{Path: "/file", Content: []byte("words")}

	s.write(func(tx store.Tx) error { _, err := tx.Files().Put(session, given); return err })
	scribble(given, s.file(session, "/file"))

	s.same("content", string(s.file(session, "/file").Content), "words")
}

func fileSurvives(s *subject) {
	session := s.session()
	s.put(session, "/dir/file", "nul \x00 \xff")
	s.put(session, "/empty/", "")
	want := s.file(session, "/dir/file")

	s.reopen()

	s.same("file", s.file(session, "/dir/file"), want)
	s.same("listed", s.paths(session, "/", true), []string{"/dir/", "/dir/file", "/empty/"})
}
