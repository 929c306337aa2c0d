//! Offsets of fields in the running kernel's structures, from its BTF type data.

/// The kernel's type data.
pub(crate) const FILE: &str = "/sys/kernel/btf/vmlinux";

/// Bytes after the three words of a type, by kind: a fixed number, and a number for each part.
const SIZES: [(usize, usize); 20] = [
    (0, 0),
    (4, 0),  // A number.
    (0, 0),  // A pointer.
    (12, 0), // An array.
    (0, 12), // A structure.
    (0, 12), // A union.
    (0, 8),  // An enumeration.
    (0, 0),
    (0, 0),
    (0, 0),
    (0, 0),
    (0, 0),
    (0, 0),  // A function.
    (0, 8),  // Its arguments.
    (4, 0),  // A variable.
    (0, 12), // A section.
    (0, 0),
    (4, 0), // A remark.
    (0, 0),
    (0, 12), // An enumeration of 64 bits.
];
const STRUCTURE: usize = 4;
const TYPE_NAME: usize = 8;

/// Offsets in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Offsets {
    /// In a task: its thread ID.
    pub(crate) pid: i32,
    /// The same for an instruction.
    pub(crate) pid_here: i16,
    /// In a task: the ID of its process.
    pub(crate) tgid: i32,
    /// In a task: whether it is running on a CPU.
    pub(crate) on_cpu: i32,
    /// In a task: how often it has fallen asleep, and how often it has lost its CPU otherwise.
    pub(crate) sleeps: i16,
    pub(crate) preemptions: i16,
    /// In a mutex: its owner.
    pub(crate) mutex_owner: i32,
    /// In a reader/writer semaphore: the writing owner, or the last owner.
    pub(crate) rwsem_owner: i32,
    /// Numbers of the types of two tracepoints.
    pub(crate) switch: u32,
    pub(crate) waking: u32,
}

impl Offsets {
    /// Reads the offsets from the types of a kernel. Returns `None` if a type or member is missing
    /// or has an unexpected layout.
    pub(crate) fn read(bytes: &[u8]) -> Option<Self> {
        let [mut task, mut mutex, mut rwsem] = [None, None, None];
        let [mut switch, mut waking] = [None, None];
        let types = Types::new(bytes)?;
        types.report(|name, number, members| match name {
            "task_struct" => task = Some(members.to_vec()),
            "mutex" => mutex = Some(members.to_vec()),
            "rw_semaphore" => rwsem = Some(members.to_vec()),
            "btf_trace_sched_switch" => switch = Some(number),
            "btf_trace_sched_waking" => waking = Some(number),
            _ => {}
        });
        let of = |members: &Option<Vec<(String, u32)>>, name: &str| {
            let found = members.as_ref()?.iter().find(|member| member.0 == name)?;
            (found.1 % 8 == 0).then_some((found.1 / 8) as i32)
        };
        Some(Self {
            pid: of(&task, "pid")?,
            pid_here: of(&task, "pid")?.try_into().ok()?,
            tgid: of(&task, "tgid")?,
            on_cpu: of(&task, "on_cpu")?,
            sleeps: of(&task, "nvcsw")?.try_into().ok()?,
            preemptions: of(&task, "nivcsw")?.try_into().ok()?,
            mutex_owner: of(&mutex, "owner")?,
            rwsem_owner: of(&rwsem, "owner")?,
            switch: switch?,
            waking: waking?,
        })
    }
}

struct Types<'a> {
    types: &'a [u8],
    names: &'a [u8],
}

impl<'a> Types<'a> {
    fn new(bytes: &'a [u8]) -> Option<Self> {
        const MAGIC: u32 = 0xeb9f;
        if number(bytes, 0)? & 0xffff != MAGIC {
            return None;
        }
        let head = number(bytes, 4)? as usize;
        let part = |at: usize| {
            let begin = head.checked_add(number(bytes, at)? as usize)?;
            bytes.get(begin..begin.checked_add(number(bytes, at + 4)? as usize)?)
        };
        Some(Self { types: part(8)?, names: part(16)? })
    }

    fn name(&self, at: u32) -> &'a str {
        let bytes = self.names.get(at as usize..).unwrap_or_default();
        let bytes = bytes.split(|byte| *byte == 0).next().unwrap_or_default();
        std::str::from_utf8(bytes).unwrap_or_default()
    }

    /// Reports the structures and other names that are needed, with the number of the type, and the
    /// offsets of the members of structures in bits.
    fn report(&self, mut tell: impl FnMut(&str, u32, &[(String, u32)])) {
        let (mut at, mut index) = (0, 0);
        let mut next = || -> Option<()> {
            let [name, info] = [at, at + 4].map(|at| number(self.types, at));
            let (name, info) = (name?, info? as usize);
            let (kind, count) = (info >> 24 & 0x1f, info & 0xffff);
            let &(own, each) = SIZES.get(kind)?;
            let first = at + 12 + own;
            at = first + each * count;
            let name = self.name(name);
            index += 1;
            if kind == TYPE_NAME && name.starts_with("btf_trace_sched_") {
                tell(name, index, &[]);
            }
            if kind == STRUCTURE && ["task_struct", "mutex", "rw_semaphore"].contains(&name) {
                let member = |index: usize| {
                    let name = self.name(number(self.types, first + 12 * index)?);
                    // The upper bits contain the size of a bit-field.
                    let bits = number(self.types, first + 12 * index + 8)? & 0xff_ffff;
                    Some((name.to_owned(), bits))
                };
                tell(name, index, &(0..count).filter_map(member).collect::<Vec<_>>());
            }
            Some(())
        };
        while next().is_some() {}
    }
}

fn number(bytes: &[u8], at: usize) -> Option<u32> {
    let bytes = bytes.get(at..at.checked_add(4)?)?;
    Some(u32::from_le_bytes(bytes.try_into().expect("four bytes")))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Types with a number and an array before the structures.
    fn sample() -> Vec<u8> {
        let names =
            b"\0mutex\0owner\0rw_semaphore\0task_struct\0pid\0tgid\0on_cpu\0nvcsw\0nivcsw\0\
            btf_trace_sched_switch\0btf_trace_sched_waking\0";
        let of = |name: &str| {
            let terminated = [&[0], name.as_bytes(), &[0]].concat();
            let found = names.windows(terminated.len()).position(|part| part == terminated);
            found.expect("it is there") as u32 + 1
        };
        let (structure, with_bits) = (4 << 24, 1 << 31);
        let types: Vec<u32> = [
            vec![0, 1 << 24, 4, 32],
            vec![0, 3 << 24, 0, 1, 1, 7],
            vec![of("btf_trace_sched_switch"), 8 << 24, 1],
            vec![of("btf_trace_sched_waking"), 8 << 24, 1],
            vec![of("mutex"), structure | 1, 8, of("owner"), 1, 0],
            vec![of("rw_semaphore"), structure | 1, 16, of("owner"), 1, 64],
            vec![of("task_struct"), with_bits | structure | 5, 99],
            vec![of("on_cpu"), 1, 0x2000_0140, of("pid"), 1, 9600, of("tgid"), 1, 9632],
            vec![of("nvcsw"), 1, 6400, of("nivcsw"), 1, 6464],
        ]
        .concat();
        let types: Vec<u8> = types.into_iter().flat_map(u32::to_le_bytes).collect();
        let head = [0x1_eb9f, 24, 0, types.len() as u32, types.len() as u32, names.len() as u32];
        [head.into_iter().flat_map(u32::to_le_bytes).collect(), types, names.to_vec()].concat()
    }

    #[test]
    fn members_are_found_behind_types_of_other_kinds() {
        let expected = Offsets {
            pid: 1200,
            pid_here: 1200,
            tgid: 1204,
            on_cpu: 40,
            sleeps: 800,
            preemptions: 808,
            mutex_owner: 0,
            rwsem_owner: 8,
            switch: 3,
            waking: 4,
        };
        assert_eq!(Offsets::read(&sample()), Some(expected));
    }

    #[test]
    fn what_is_cut_off_or_damaged_is_none() {
        let sample = sample();
        for length in 0..sample.len() - 60 {
            assert_eq!(Offsets::read(&sample[..length]), None, "{length}");
        }
        assert_eq!(Offsets::read(&vec![0xff; 4096]), None);
    }
}
