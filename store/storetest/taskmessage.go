package storetest

import (
	"fmt"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/store"
)

func taskMessageLaws() []law {
	return []law{
		{"keeps_every_field", messageFields},
		{"keeps_hostile_text", hostileMessages},
		{"reads_pages_oldest_first", messagePages},
		{"refuses_an_id_that_exists", knownMessageID},
		{"gives_out_copies", messageCopies},
		{"survives_reopening", messagesSurvive},
	}
}

// messages returns messages of a task.
func (s *subject) messages(id perdure.TaskID, after perdure.TaskMessageID, limit int) (found []perdure.TaskMessage) {
	s.Helper()
	s.read(func(r store.Reader) (err error) {
		found, err = r.Tasks().Messages(id, after, limit)
		return err
	})
	return found
}

// say adds messages to a task and returns them.
func (s *subject) say(id perdure.TaskID, n int) []perdure.TaskMessage {
	s.Helper()
	said := make([]perdure.TaskMessage, n)
	s.write(func(tx store.Tx) error {
		for i := range said {
			said[i] = perdure.TaskMessage{
				ID: mint[perdure.TaskMessageID](s), Task: id, Direction: perdure.Inbound,
				// does not determine the order
				Text: fmt.Sprint("message ", i), By: fmt.Sprint("user ", i), CreatedAt: moment(-i),
			}
			if err := tx.Tasks().AddMessage(said[i]); err != nil {
				return err
			}
		}
		return nil
	})
	return said
}

func messageFields(s *subject) {
	t := s.create(s.newTask(s.session()))
	want := filled[perdure.TaskMessage]()
	want.Task = t.ID
	given := want
	given.CreatedAt = want.CreatedAt.Add(999).In(time.FixedZone("east", 5*3600))

	s.write(func(tx store.Tx) error { return tx.Tasks().AddMessage(given) })

	s.same("messages", s.messages(t.ID, "", 0), []perdure.TaskMessage{want})
}

func hostileMessages(s *subject) {
	t := s.create(s.newTask(s.session()))
	var want []perdure.TaskMessage
	for _, words := range hostile() {
		m := perdure.TaskMessage{ID: mint[perdure.TaskMessageID](s), Task: t.ID, Direction: perdure.Outbound,
			Text: words, Data: []byte(words), By: words}
		want = append(want, m)
		s.write(func(tx store.Tx) error { return tx.Tasks().AddMessage(m) })
	}

	s.same("messages", s.messages(t.ID, "", 0), want)
}

func messagePages(s *subject) {
	session := s.session()
	one, other := s.create(s.newTask(session)), s.create(s.newTask(session))
	all := s.say(one.ID, 2)
	theirs := s.say(other.ID, 2)
	all = append(all, s.say(one.ID, 3)...)
	cases := []struct {
		after perdure.TaskMessageID
		limit int
		want  []perdure.TaskMessage
	}{
		{"", 0, all}, {"", 2, all[:2]}, {all[1].ID, 2, all[2:4]}, {all[3].ID, 9, all[4:]}, {all[4].ID, 0, nil},
		{theirs[1].ID, 0, all}, {mint[perdure.TaskMessageID](s), 1, all[:1]},
	}
	for _, c := range cases {
		s.same(fmt.Sprintf("after %q, limit %d", c.after, c.limit), s.messages(one.ID, c.after, c.limit), c.want)
	}
	s.same("of another task", s.messages(other.ID, "", 0), theirs)
	s.same("of no task", s.messages(mint[perdure.TaskID](s), "", 0), []perdure.TaskMessage{})
}

func knownMessageID(s *subject) {
	session := s.session()
	one, other := s.create(s.newTask(session)), s.create(s.newTask(session))
	said := s.say(one.ID, 1)
	for _, id := range []perdure.TaskID{one.ID, other.ID} {
		again := said[0]
		again.Task, again.Text = id, "another text"

		s.refused(perdure.Conflict, func(tx store.Tx) error { return tx.Tasks().AddMessage(again) })
	}
	s.same("messages", s.messages(one.ID, "", 0), said)
	s.same("of another task", s.messages(other.ID, "", 0), []perdure.TaskMessage{})
}

func messageCopies(s *subject) {
	t := s.create(s.newTask(s.session()))
	want, given := filled[perdure.TaskMessage](), filled[perdure.TaskMessage]()
	want.Task, given.Task = t.ID, t.ID

	s.write(func(tx store.Tx) error { return tx.Tasks().AddMessage(given) })
	scribble(given, s.messages(t.ID, "", 0))

	s.same("messages", s.messages(t.ID, "", 0), []perdure.TaskMessage{want})
}

func messagesSurvive(s *subject) {
	t := s.create(s.newTask(s.session()))
	said := s.say(t.ID, 3)

	s.reopen()

	said = append(said, s.say(t.ID, 1)...)
	s.same("messages", s.messages(t.ID, "", 0), said)
}
