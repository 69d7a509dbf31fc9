"""What every layer shares: types of elements, sizes, devices, settings, events and the record of modes."""
