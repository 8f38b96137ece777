/** How many of something may be there at once. What is taken is given back by calling what `take` answers, once or more; null: there is none left. */
export type Take = () => (() => void) | null;

export function atMost(most: number, take: Take): Take {
  let count = 0;
  return () => {
    const over = count < most ? take() : null;
    if (over === null) return null;
    count += 1;
    let isOver = false;
    return () => {
      if (isOver) return;
      isOver = true;
      count -= 1;
      over();
    };
  };
}

export interface Places {
  /** Those of one instance. */
  share(): Take;
}

/** Of all instances together. Each may have as many as are left: so whoever takes all they can leaves room for who comes after them. */
export function makePlaces(ofAll: number): Places {
  let taken = 0;
  return {
    share() {
      let mine = 0;
      return atMost(ofAll, () => {
        if (mine >= ofAll - taken) return null;
        mine += 1;
        taken += 1;
        return () => {
          mine -= 1;
          taken -= 1;
        };
      });
    },
  };
}
