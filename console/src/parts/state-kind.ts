/** What a state means to its owner, for its mark and colour. */
export type StateKind = 'good' | 'busy' | 'warns' | 'bad' | 'rests' | 'absent';
