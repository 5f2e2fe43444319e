// Package injection asks what an obedient model can be made to give away (S3): it reads what strangers wrote, does whatever
// that says, and everything that could carry a secret out is watched.
//
// It has tests only and may import nothing of ours outside them. The one thing to know: no scenario counts unless the model
// really obeyed, and unless the tripwires see the secret where nothing stands in its way.
package injection
