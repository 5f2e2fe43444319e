// Package injection tests what an obedient model can be made to reveal (S3): the model reads text
// written by strangers and does whatever that text says, while tripwires watch every way in which a
// secret could leave.
//
// It contains only tests and may import none of our packages outside them.
//
// The one thing to know: a scenario counts only if the model really obeyed, and if the tripwires
// detect the secret when nothing prevents it from leaving.
package injection
